// Networks with names.
#include "arguments.h"

namespace varve::python {
namespace {

nb::tuple sizes_of(const Shape& shape) { return nb::tuple(nb::cast(shape.vec())); }

void bind_entry(nb::module_& m) {
  constexpr const char* kTuple = "def input(self) -> tuple[int, ...]";
  nb::class_<zoo::Entry>(m, "Entry", R"(A network of the zoo.

>>> zoo.find("lenet5").input
(28, 28, 1))")
      .def_ro("name", &zoo::Entry::name, "\"resnet50\", say.")
      .def_ro("doc", &zoo::Entry::doc, "What it is, and from which paper.")
      .def_prop_ro(
          "input", [](const zoo::Entry& e) { return sizes_of(e.input); }, nb::sig(kTuple), "The shape of a sample.")
      .def_ro("dtype", &zoo::Entry::dtype, "The element type of a sample; i32: token ids.")
      .def_ro("classes", &zoo::Entry::classes, "The number of outputs unless given.")
      .def_ro("parameters", &zoo::Entry::parameters, "The number of parameters, as published.")
      .def_prop_ro(
          "smallest", [](const zoo::Entry& e) { return sizes_of(e.smallest.rank() ? e.smallest : e.input); },
          nb::sig("def smallest(self) -> tuple[int, ...]"), "An input that still works, for quick tests.")
      .def_ro("train", &zoo::Entry::train, "How to train it, as TOML; \"\" when it is only a network.")
      .def_ro("sizes", &zoo::Entry::sizes, "Options beside classes that make() understands.")
      .def("__repr__", [](const zoo::Entry& e) { return "<varve.zoo " + e.name + ", " + e.doc + ">"; });
}

}  // namespace

void bind_zoo(nb::module_& m) {
  bind_entry(m);
  m.def("_zoo", [] { return zoo::entries(); });
  m.def(
      "_zoo_find",
      [](nb::handle name) {
        return zoo::find(to_text(name, {"find", "name", false}));
      },
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
