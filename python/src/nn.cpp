// Modules. Layers are made from the table that network files use, so that every layer is here without an edit.
#include <nanobind/trampoline.h>

#include "bindings.h"

namespace varve::python {
namespace {

using nn::Layer;
using nn::Module;

// A module written in Python: its class has forward(x, train). Public here is what subclasses need of Module.
class PythonModule : public Module {
 public:
  NB_TRAMPOLINE(Module, 2);

  Tensor forward(Tensor x, Mode mode) override { NB_OVERRIDE_PURE_NAME("_forward", forward, x, mode); }
  std::string kind() const override { NB_OVERRIDE_NAME("_kind", kind); }

  void add_child(const std::string& name, Module& child) { add(name, child); }
  void add_variable(const std::string& name, const Variable& variable) { share(name, variable); }
  void add_buffer(const std::string& name, const Tensor& initial) { buffer(name, initial); }
};

PythonModule& written(Module& module) {
  if (auto* python = dynamic_cast<PythonModule*>(&module)) return *python;
  throw nb::type_error("parts can be added to modules that are written in Python only");
}

Mode mode_of(bool train) { return train ? Mode::train : Mode::infer; }

nb::list variables_of(const Module& module) {
  nb::list all;
  for (const nn::NamedVariable& named : module.named_variables())
    all.append(nb::make_tuple(named.path, named.variable, named.parameter));
  return all;
}

// The one layer of a network file's text.
Layer layer_from_text(const std::string& toml, const std::string& name) {
  const nn::TextNetwork network = nn::network_from_toml(toml, name);
  return network.network.steps().at(0).layer;
}

}  // namespace

void bind_nn(nb::module_& m) {
  nb::enum_<Mode>(m, "Mode").value("train", Mode::train).value("infer", Mode::infer);
  nb::class_<Module, PythonModule>(m, "Module", nb::is_weak_referenceable())
      .def(nb::init<>())
      .def(
          "__call__",
          [](Module& self, nb::handle x, bool train) {
            const Tensor in = to_tensor(x);
            return unlocked([&] { return self(in, mode_of(train)); });
          },
          "x"_a, "train"_a = false)
      .def(
          "build",
          [](Module& self, nb::handle sample, nb::handle dtype, std::int64_t seed, std::int64_t batch) {
            const Shape shape = to_shape(sample);
            const DType type = to_dtype(dtype);
            unlocked([&] { self.build(shape, {type, seed, batch}); });
          },
          "sample"_a, "dtype"_a = f32, "seed"_a = 0, "batch"_a = 2, "Makes all variables for samples of this shape.")
      .def_prop_ro("built", &Module::built)
      .def("parameters", &Module::parameters, "The trainable variables, each once.")
      .def("_variables", &variables_of)
      .def("parameter_count", &Module::parameter_count)
      .def("variable", &Module::variable, "path"_a)
      .def("freeze", &Module::freeze, "pattern"_a = "*")
      .def("unfreeze", &Module::unfreeze, "pattern"_a = "*")
      .def("reset_state", &Module::reset_state)
      .def(
          "summary",
          [](const Module& self, std::int64_t batch) {
            return unlocked([&] { return self.summarize({batch}).str(); });
          },
          "batch"_a = 32, "Layers, shapes, parameters, FLOPs and peak training memory, as a table.")
      .def(
          "save",
          [](const Module& self, const std::string& path, nb::handle dtype, bool pytorch,
             const std::map<std::string, std::string>& metadata) {
            const DType type = to_dtype(dtype);
            unlocked([&] { self.save(path, {type, pytorch, metadata}); });
          },
          "path"_a, "dtype"_a = f32, "pytorch"_a = false, "metadata"_a = std::map<std::string, std::string>{})
      .def(
          "_load",
          [](Module& self, const std::string& path, bool pytorch, bool partial) {
            const nn::Loaded loaded = unlocked([&] { return self.load(path, {pytorch, partial}); });
            return nb::make_tuple(loaded.missing, loaded.unexpected);
          },
          "path"_a, "pytorch"_a = false, "partial"_a = false)
      .def("kind", &Module::kind)
      .def("_add_child",
           [](Module& self, const std::string& name, Module& child) { written(self).add_child(name, child); })
      .def("_add_variable",
           [](Module& self, const std::string& name, const Variable& v) { written(self).add_variable(name, v); })
      .def("_add_buffer",
           [](Module& self, const std::string& name, nb::handle v) { written(self).add_buffer(name, to_tensor(v)); });

  nb::class_<nn::Sequential, Module>(m, "_Sequential")
      .def("__init__",
           [](nn::Sequential* self, std::vector<Layer> layers) { new (self) nn::Sequential(std::move(layers)); })
      .def("__len__", &nn::Sequential::size)
      .def(
          "push", [](nn::Sequential& self, Layer layer, const std::string& name) { self.push(std::move(layer), name); },
          "layer"_a, "name"_a = "");

  m.def("_layer", &layer_from_text);
  m.def(
      "_residual",
      [](Layer body, Layer shortcut, const std::string& activation) -> Layer {
        return nn::layer(nn::Residual(
            std::move(body), std::move(shortcut),
            activation.empty() ? std::function<Tensor(const Tensor&)>{} : nn::activation_by_name(activation).function));
      },
      "body"_a, "shortcut"_a.none(), "activation"_a);
  m.def("_branches", [](const std::string& join, std::vector<Layer> layers) -> Layer {
    const nn::Join how = join == "add" ? nn::Join::add : join == "multiply" ? nn::Join::multiply : nn::Join::concat;
    return nn::layer(nn::Branches(how, std::move(layers)));
  });
  m.def("_layer_schemas", [] {
    nb::list all;
    for (const nn::LayerSchema& schema : nn::layer_schemas()) {
      nb::list keys;
      for (const nn::LayerKey& key : schema.keys)
        keys.append(nb::make_tuple(key.name, key.type, key.standard, key.doc));
      all.append(nb::make_tuple(schema.name, schema.doc, keys));
    }
    return all;
  });
  m.def("_activations", [] {
    std::vector<std::string> names;
    for (const nn::Activation& activation : nn::activations()) names.push_back(activation.name);
    return names;
  });
  m.def(
      "_initial",
      [](const std::string& name, nb::handle shape, std::int64_t seed, const std::string& stream) {
        return nn::init::by_name(name)(to_shape(shape), {}, {.seed = seed, .stream = stream});
      },
      "name"_a, "shape"_a, "seed"_a = 0, "stream"_a = "");
  m.def("_load_network", [](const std::string& path) -> Layer { return nn::layer(nn::load_network(path).network); });
  m.def("_save_safetensors", [](const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                                const std::map<std::string, std::string>& metadata) {
    unlocked([&] { save_safetensors(path, {tensors, metadata}); });
  });
  m.def("_load_safetensors", [](const std::string& path) {
    const Safetensors content = unlocked([&] { return load_safetensors(path); });
    return nb::make_tuple(content.tensors, content.metadata);
  });
}

}  // namespace varve::python
