#include "fields.h"

namespace varve::python {

bool is_several(nb::handle value) {
  if (nb::isinstance<nb::dict>(value)) return true;
  if (!nb::isinstance<nb::tuple>(value)) return false;
  const auto all = nb::borrow<nb::tuple>(value);
  for (const nb::handle each : all)
    if (!nb::hasattr(each, "shape")) return false;
  return all.size() > 0;
}

Tensors tensors_of(nb::handle value) {
  if (!is_several(value)) return to_tensor(value);
  Tensors all;
  if (nb::isinstance<nb::dict>(value))
    for (const auto& [name, each] : nb::borrow<nb::dict>(value)) all.add(nb::cast<std::string>(name), to_tensor(each));
  else
    for (const nb::handle each : nb::borrow<nb::tuple>(value)) all.add(to_tensor(each));
  return all;
}

nb::object tensors_object(const Tensors& all) {
  if (all.size() == 1 && all.name(0).empty()) return nb::cast(all[0]);
  bool named = true;
  for (const std::string& name : all.names()) named = named && !name.empty();
  if (named) {
    nb::dict by_name;
    for (const auto& [name, tensor] : all) by_name[name.c_str()] = tensor;
    return by_name;
  }
  nb::list in_order;
  for (const auto& [name, tensor] : all) in_order.append(tensor);
  return nb::tuple(in_order);
}

nb::list field_list(const std::vector<Field>& fields) {
  nb::list all;
  for (const auto& [name, type] : fields) {
    nb::list sizes;
    for (const std::int64_t size : type.shape) sizes.append(size);
    all.append(nb::make_tuple(name, nb::tuple(sizes), type.dtype));
  }
  return all;
}

std::vector<Field> to_fields(nb::handle list) {
  std::vector<Field> fields;
  for (const nb::handle each : nb::borrow<nb::sequence>(list))
    fields.push_back({nb::cast<std::string>(each[0]), {to_dtype(each[2]), to_shape(each[1])}});
  return fields;
}

}  // namespace varve::python
