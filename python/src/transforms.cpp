// Transforms of Python functions, which arrive as functions of flat lists of tensors (varve/_transforms.py).
#include "arguments.h"

namespace varve::python {
namespace {

using List = std::vector<Tensor>;
using ListFunction = std::function<List(const List&)>;
using Scalar = std::function<Tensor(const List&)>;
using Maybe = std::vector<std::optional<Tensor>>;  // None: an undefined tensor

List with_undefined(const Maybe& given) {
  List list;
  for (const auto& tensor : given) list.push_back(tensor.value_or(Tensor()));
  return list;
}

Maybe with_none(const List& given) {
  Maybe list;
  for (const Tensor& tensor : given) list.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
  return list;
}

}  // namespace

void bind_transforms(nb::module_& m) {
  m.def(
      "_vmap",
      [](const ListFunction& f, const List& inputs, const std::vector<std::optional<std::int64_t>>& in_axes,
         bool different) {
        const VmapOptions options{.in_axes = in_axes,
                                  .randomness = different ? Randomness::different : Randomness::same};
        return unlocked([&] { return detail::vmap(f, inputs, options); });
      },
      "f"_a, "inputs"_a, "in_axes"_a, "different"_a);
  m.def(
      "_jvp",
      [](const ListFunction& f, const List& inputs, const Maybe& tangents) {
        return unlocked([&] {
          const Jvp result = jvp(f, inputs, with_undefined(tangents));
          return std::pair(result.outputs, with_none(result.tangents));
        });
      },
      "f"_a, "inputs"_a, "tangents"_a);
  m.def("_jacobians", [](const ListFunction& f, const List& inputs, const std::string& mode) {
    const JacobianMode way = mode == "forward"   ? JacobianMode::forward
                             : mode == "reverse" ? JacobianMode::reverse
                                                 : JacobianMode::automatic;
    return unlocked([&] { return jacobians(f, inputs, way); });
  });
  m.def("_hessians", [](const Scalar& f, const List& inputs) { return unlocked([&] { return hessians(f, inputs); }); });
  m.def("_hvp", [](const Scalar& f, const List& inputs, const List& vectors) {
    return unlocked([&] { return hvp(f, inputs, vectors); });
  });
  m.def("_hvp_of_variables", [](const std::function<Tensor()>& f, const std::vector<Variable>& variables,
                                const List& vectors) { return unlocked([&] { return hvp(f, variables, vectors); }); });
}

}  // namespace varve::python
