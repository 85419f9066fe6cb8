// Networks with names.
#include "arguments.h"

namespace varve::python {
namespace {

std::vector<std::int64_t> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

nb::tuple entry_tuple(const zoo::Entry& entry) {
  return nb::make_tuple(entry.name, entry.doc, sizes_of(entry.input), entry.dtype, entry.classes, entry.parameters,
                        sizes_of(entry.smallest.rank() ? entry.smallest : entry.input), entry.train, entry.sizes);
}

}  // namespace

void bind_zoo(nb::module_& m) {
  m.def("_zoo", [] {
    nb::list all;
    for (const zoo::Entry& entry : zoo::entries()) all.append(entry_tuple(entry));
    return all;
  });
  m.def("_zoo_find", [](nb::handle name) { return entry_tuple(zoo::find(to_text(name, {"find", "name", false}))); },
        "name"_a.none());
  m.def(
      "_zoo_make",
      [](nb::handle name, const std::map<std::string, double>& sizes) {
        const std::string text = to_text(name, {"make", "name", false});
        return unlocked([&] { return zoo::make(text, sizes); });
      },
      "name"_a.none(), "sizes"_a);
  m.def(
      "_contrastive_divergence",
      [](const nn::Module& rbm, nb::handle x, std::int64_t seed, const std::string& stream, nb::handle counter) {
        const Tensor batch = to_tensor(x, {"contrastive_divergence", "x", false});
        const Tensor at = to_tensor(counter, {"contrastive_divergence", "counter", true});
        return unlocked([&] { return zoo::contrastive_divergence(rbm, batch, {seed, stream, at}); });
      },
      "rbm"_a, "x"_a.none(), "seed"_a, "stream"_a, "counter"_a.none());
}

}  // namespace varve::python
