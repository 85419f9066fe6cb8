// Modules. Layers are made from the table that network files use, so that every layer is here without an edit.
#include <nanobind/trampoline.h>

#include "bindings.h"
#include "fields.h"

namespace varve::python {
namespace {

using nn::Layer;
using nn::Module;

// A module written in Python: its class has forward(x, train). Public here is what subclasses need of Module.
class PythonModule : public Module {
 public:
  NB_TRAMPOLINE(Module, 2);

  Tensors forward_all(const Tensors& x, Mode mode) override {
    const nb::gil_scoped_acquire lock;
    nb::list parts;
    for (const auto& [name, tensor] : x) parts.append(nb::make_tuple(name, tensor));
    return tensors_of(nb_trampoline.base().attr("_forward_all")(parts, mode));
  }
  // A class whose forward takes a mask sees to it.
  nn::Masking masking() const override { return uses_masks ? nn::Masking::uses : nn::Masking::along; }
  nn::Masked masked_forward(Tensor x, Mode mode, const nn::Mask& mask) override {
    const nb::gil_scoped_acquire lock;
    const nb::object given = mask.defined() ? nb::cast(mask) : nb::none();
    const nb::object answer = nb::find(static_cast<Module*>(this)).attr("_masked_forward")(x, mode, given);
    const nb::object valid = answer[1];
    return {nb::cast<Tensor>(answer[0]), valid.is_none() ? nn::Mask() : nb::cast<nn::Mask>(valid)};
  }
  bool uses_masks = false;
  std::string kind() const override { NB_OVERRIDE_NAME("_kind", kind); }

  void add_child(const std::string& name, Module& child) {
    remove(name);
    add(name, child);
  }
  void add_variable(const std::string& name, const Variable& variable) {
    remove(name);
    share(name, variable);
  }
  Variable add_buffer(const std::string& name, const Tensor& initial) {
    remove(name);
    return buffer(name, initial);
  }
  void remove_part(const std::string& name) { remove(name); }
  void learns() { learns_size(); }
  Variable own_parameter(const std::string& name, const Shape& shape, const nn::Initializer& initial) {
    return parameter(name, shape, initial);
  }
};

PythonModule& written(Module& module) {
  if (auto* python = dynamic_cast<PythonModule*>(&module)) return *python;
  throw nb::type_error("parts can be added to modules that are written in Python only");
}

Mode mode_of(bool train) { return train ? Mode::train : Mode::infer; }

// model(image, question, train=True), or model(image=…, question=…).
nb::object call_with_several(Module& self, const nb::args& x, const nb::kwargs& named) {
  Tensors in;
  bool train = false;
  for (const nb::handle each : x)
    if (nb::isinstance<nb::bool_>(each))
      train = nb::cast<bool>(each);
    else
      in.add(to_tensor(each));
  for (const auto& [key, value] : named) {
    const auto name = nb::cast<std::string>(key);
    if (name == "train")
      train = nb::cast<bool>(value);
    else
      in.add(name, to_tensor(value));
  }
  return tensors_object(unlocked([&] { return self(in, mode_of(train)); }));
}

nb::tuple sizes(const Shape& shape) {
  nb::list all;
  for (const std::int64_t size : shape) all.append(size);
  return nb::tuple(all);
}

nb::list variables_of(const Module& module) {
  nb::list all;
  for (const nn::NamedVariable& named : module.named_variables())
    all.append(nb::make_tuple(named.path, named.variable, named.parameter));
  return all;
}

// A name, a function of (shape, fans, seed), or values.
nn::Initializer to_initializer(nb::handle value) {
  std::string name;
  if (nb::try_cast<std::string>(value, name)) return nn::init::by_name(name);
  if (!PyCallable_Check(value.ptr())) return nn::init::from(to_tensor(value));
  const auto call = nb::cast<std::function<nb::object(nb::tuple, nb::tuple, std::int64_t)>>(value);
  return [call](const Shape& shape, const nn::Fans& fans, const RandomOptions& random) {
    const nb::gil_scoped_acquire lock;
    const Tensor made =
        to_tensor(call(sizes(shape), nb::make_tuple(fans.in, fans.out), static_cast<std::int64_t>(random.seed)));
    const DType dtype = random.dtype;
    return unlocked([&] { return made.to(dtype); });
  };
}

// The one layer of a network file's text, which may name functions of Python.
Layer layer_from_text(const std::string& toml, const std::string& name, const nb::dict& initializers,
                      const std::map<std::string, std::function<Tensor(const Tensor&)>>& activations) {
  std::map<std::string, nn::Initializer> inits;
  for (const auto& [key, value] : initializers) inits[nb::cast<std::string>(key)] = to_initializer(value);
  std::map<std::string, nn::Activation> functions;
  for (const auto& [key, function] : activations) functions[key] = {key, function};
  const nn::OwnNames own(std::move(inits), std::move(functions));
  const nn::TextNetwork network = nn::network_from_toml(toml, name);
  return network.network.steps().at(0).layer;
}

// Python objects that a module of C++ holds. Without this, a cycle through one would never be collected. (No tp_clear:
// every such cycle goes through a dict of Python, which has one.)
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const auto& [name, child] : nb::inst_ptr<Module>(self)->children())
    if (const auto* held = std::get_deleter<nb::detail::py_deleter>(child)) Py_VISIT(held->o);
  return 0;
}
const PyType_Slot kSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {0, nullptr}};

nb::dict loaded_dict(const nn::Loaded& loaded) {
  nb::dict all;
  all["missing"] = loaded.missing;
  all["unexpected"] = loaded.unexpected;
  return all;
}

// Sees the calls of a thread while a `with` block runs.
class WatchScope {
 public:
  using See = std::function<nb::object(nb::object module, std::string path, int depth, Tensor x, Tensor y)>;
  explicit WatchScope(See see) : see_(std::move(see)) {}
  void enter() {
    watch_.emplace([see = see_](const nn::Watch::Call& call) {
      const nb::gil_scoped_acquire lock;
      const nb::object answer = see(nb::find(const_cast<Module*>(&call.module)), call.path, call.depth, call.x, call.y);
      return !answer.is_valid() || answer.is_none() ? call.y : to_tensor(answer);
    });
  }
  void exit() { watch_.reset(); }

 private:
  See see_;
  std::optional<nn::Watch> watch_;
};

class PrecisionScope {
 public:
  explicit PrecisionScope(DType dtype) : dtype_(dtype) {}
  void enter() { precision_.emplace(dtype_); }
  void exit() { precision_.reset(); }

 private:
  DType dtype_;
  std::optional<nn::Precision> precision_;
};

class SyncScope {
 public:
  void enter() { sync_.emplace(); }
  void exit() { sync_.reset(); }

 private:
  std::optional<nn::SyncBatchNorm> sync_;
};

class LossesScope {
 public:
  void enter() { losses_.emplace(); }
  void exit() { losses_.reset(); }
  Tensor total() const {
    if (!losses_) throw Error("AddedLosses: total() is asked within the with block.");
    return losses_->total();
  }

 private:
  std::optional<nn::AddedLosses> losses_;
};

void bind_summary(nb::module_& m) {
  nb::class_<nn::SummaryRow>(
      m, "SummaryRow",
      "A module in a summary.\n\n>>> from varve import nn\n>>> model = nn.Sequential(nn.Dense(3)); model.build(2)\n>>> "
      "row = model.summary().rows[0]\n>>> row.kind, row.parameters\n('dense', 9)")
      .def_ro("path", &nn::SummaryRow::path)
      .def_ro("kind", &nn::SummaryRow::kind)
      .def_prop_ro("output", [](const nn::SummaryRow& row) { return sizes(row.output); })
      .def_prop_ro("outputs", [](const nn::SummaryRow& row) { return field_list(row.outputs); })
      .def_ro("parameters", &nn::SummaryRow::parameters)
      .def_ro("shared", &nn::SummaryRow::shared)
      .def_ro("flops", &nn::SummaryRow::flops)
      .def_ro("depth", &nn::SummaryRow::depth);
  nb::class_<nn::Summary>(
      m, "Summary",
      "Layers, shapes, parameters, FLOPs and peak training memory; prints as a table.\n\n>>> from varve import nn\n>>> "
      "model = nn.Sequential(nn.Dense(3)); model.build(2)\n>>> model.summary(batch=4).parameters\n9")
      .def_ro("rows", &nn::Summary::rows)
      .def_ro("parameters", &nn::Summary::parameters)
      .def_ro("trainable", &nn::Summary::trainable)
      .def_ro("parameter_bytes", &nn::Summary::parameter_bytes)
      .def_ro("batch", &nn::Summary::batch)
      .def_ro("flops", &nn::Summary::flops)
      .def_ro("peak_bytes", &nn::Summary::peak_bytes)
      .def("__str__", &nn::Summary::str)
      .def("__repr__", &nn::Summary::str)
      .def("__contains__",
           [](const nn::Summary& s, const std::string& text) { return s.str().find(text) != std::string::npos; });
}

void bind_mask(nb::module_& m) {
  nb::class_<nn::Mask>(
      m, "Mask", nb::is_weak_referenceable(),
      "Which steps of a batch of sequences are valid, and which are padding: model(x, train, mask).\n\n"
      ">>> from varve import nn\n"
      ">>> mask = nn.Mask.of_lengths([1, 3], steps=4)\n"
      ">>> mask.weights().tolist()\n"
      "[[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]]")
      .def_static(
          "of_lengths",
          [](nb::handle lengths, std::int64_t steps) {
            const Tensor in = to_tensor(lengths);
            return unlocked([&] { return nn::Mask::of_lengths(in, steps); });
          },
          "lengths"_a, "steps"_a, "Sequence i has lengths[i] of so many steps; padding is on the right.")
      .def_static(
          "of_valid",
          [](nb::handle valid) {
            const Tensor in = to_tensor(valid);
            return unlocked([&] { return nn::Mask::of_valid(in); });
          },
          "valid"_a,
          "Of booleans [N, T]; padding may be anywhere.\n\n>>> import varve as vv\n>>> "
          "nn.Mask.of_valid(vv.tensor([[False, True, True]])).lengths().tolist()\n[2]")
      .def_static(
          "of_ids",
          [](nb::handle ids, std::int64_t padding) {
            const Tensor in = to_tensor(ids);
            return unlocked([&] { return nn::Mask::of_ids(in, padding); });
          },
          "ids"_a, "padding"_a = 0,
          "Of token ids [N, T]: valid where they are not padding.\n\n>>> nn.Mask.of_ids([[7, 3, "
          "0]]).lengths().tolist()\n[2]")
      .def("samples", &nn::Mask::samples, "How many sequences.\n\n>>> nn.Mask.of_lengths([1, 3], 4).samples()\n2")
      .def("steps", &nn::Mask::steps,
           "How many steps each has, padding included.\n\n>>> nn.Mask.of_lengths([1, 3], 4).steps()\n4")
      .def("right_padded", &nn::Mask::right_padded,
           "Whether padding is known to be on the right.\n\n>>> nn.Mask.of_lengths([1, 3], 4).right_padded()\nTrue")
      .def("valid", &nn::Mask::valid,
           "Booleans [N, T].\n\n>>> nn.Mask.of_lengths([1], 2).valid().tolist()\n[[True, False]]")
      .def("lengths", &nn::Mask::lengths,
           "i64 [N]: valid steps of each sequence.\n\n>>> nn.Mask.of_lengths([1, 3], 4).lengths().tolist()\n[1, 3]")
      .def("weights", &nn::Mask::weights, "f32 [N, T]: 1 where valid, as losses take it.")
      .def("same", &nn::Mask::same, "other"_a,
           "Whether both are copies of one mask.\n\n>>> mask = nn.Mask.of_lengths([1], 2)\n>>> mask.same(mask)\nTrue");
}

void bind_module(nb::module_& m) {
  nb::class_<Module, PythonModule>(m, "Module", nb::is_weak_referenceable(), nb::type_slots(kSlots))
      .def(nb::init<>())
      .def(
          "__call__",
          [](Module& self, nb::handle x, bool train, const std::optional<nn::Mask>& mask) {
            const Tensors in = tensors_of(x);
            return tensors_object(unlocked([&] {
              return mask ? self(in, mode_of(train), std::vector<nn::Mask>{*mask}) : self(in, mode_of(train));
            }));
          },
          "x"_a, "train"_a = false, "mask"_a.none() = nb::none(),
          "The forward pass over a batch; mask: which steps of it are valid (nn.Mask).")
      .def(
          "masked",
          [](Module& self, nb::handle x, bool train, const std::optional<nn::Mask>& mask) {
            const Tensor in = to_tensor(x);
            const nn::Masked result =
                unlocked([&] { return self.masked(in, mode_of(train), mask.value_or(nn::Mask())); });
            return nb::make_tuple(result.y, result.mask.defined() ? nb::cast(result.mask) : nb::none());
          },
          "x"_a, "train"_a = false, "mask"_a.none() = nb::none(),
          "The forward pass, and the mask of what it gives: None where all steps are valid, or there are none.")
      .def("__call__", &call_with_several, "The forward pass over several inputs, by place or by name.")
      .def("_build_all",
           [](Module& self, nb::handle sample, std::int64_t seed, std::int64_t batch) {
             const std::vector<Field> fields = to_fields(sample);
             unlocked([&] { self.build_all(fields, {.seed = seed, .batch = batch}); });
           })
      .def_prop_ro(
          "inputs", [](const Module& self) { return field_list(self.inputs()); },
          "Name, shape and type of each input of a sample, as it was built for or called with first; empty before.")
      .def_prop_ro(
          "outputs", [](const Module& self) { return field_list(self.outputs()); },
          "Name, shape and type of each output of a sample; empty before it was built or called.")
      .def(
          "_build",
          [](Module& self, nb::handle sample, nb::handle dtype, std::int64_t seed, std::int64_t batch) {
            const Shape shape = to_shape(sample);
            const DType type = to_dtype(dtype);
            unlocked([&] { self.build(shape, {type, seed, batch}); });
          },
          "sample"_a, "dtype"_a, "seed"_a, "batch"_a)
      .def_prop_ro("built", &Module::built, "Whether every layer that learns its size has done so.")
      .def_prop_ro(
          "input",
          [](const Module& self) -> nb::object {
            const std::optional<TensorType> type = self.input();
            return type ? nb::object(nb::make_tuple(sizes(type->shape), type->dtype)) : nb::none();
          },
          "Shape and type of a sample, as it was built for or called with first; None before.")
      .def("parameters", &Module::parameters, "The trainable variables, each once.")
      .def("_variables", &variables_of)
      .def("_children", &Module::children)
      .def("parameter_count", &Module::parameter_count, "How many numbers it learns, frozen ones included.")
      .def("variable", &Module::variable, "path"_a, "The variable of that path.")
      .def(
          "place",
          [](Module& self, int rank, const std::string& split) {
            unlocked([&] { self.place({.rank = rank, .split = nn::split_by_name(split)}); });
          },
          "rank"_a = -1, "split"_a = "none",
          "Where it, and all modules inside it, are computed and kept among ranks; -1: on all of them. Or split over "
          "them: a dense layer by 'columns' or 'rows', an attention or a transformer block by 'heads'.")
      .def("placed", &Module::placed, "Whether it, or a module inside it, lives on one rank, or is split over all.")
      .def("freeze", &Module::freeze, "pattern"_a = "*",
           "Parameters that match (* and ? as in a shell, over paths) stay as they are.")
      .def("unfreeze", &Module::unfreeze, "pattern"_a = "*", "Parameters that match are trained again.")
      .def("reset_state", &Module::reset_state, "What stateful recurrent layers carry from batch to batch, to zero.")
      .def(
          "summary",
          [](const Module& self, std::int64_t batch) { return unlocked([&] { return self.summarize({batch}); }); },
          "batch"_a = 32, "Layers, shapes, parameters, FLOPs and peak training memory, as a table.")
      .def("_save",
           [](const Module& self, const std::string& path, nb::handle dtype, bool pytorch,
              const std::map<std::string, std::string>& metadata) {
             const DType type = to_dtype(dtype);
             unlocked([&] { self.save(path, {type, pytorch, metadata}); });
           })
      .def("_load",
           [](Module& self, const std::string& path, bool pytorch, bool partial) {
             return loaded_dict(unlocked([&] { return self.load(path, {pytorch, partial}); }));
           })
      .def("_weights",
           [](const Module& self, bool pytorch) {
             return unlocked([&] { return self.weights({.dtype = f32, .pytorch = pytorch, .metadata = {}}); }).tensors;
           })
      .def("_set_weights",
           [](Module& self, std::vector<std::pair<std::string, Tensor>> tensors, bool pytorch, bool partial) {
             return loaded_dict(unlocked([&] {
               return self.set_weights({std::move(tensors), {}}, {pytorch, partial}, "state_dict");
             }));
           })
      .def("kind", &Module::kind, "What it is: \"dense\", \"sequential\", the name of a Python class.")
      .def("_hook",
           [](Module& self, std::function<nb::object(nb::object, Tensor, Tensor)> see) {
             return self.hook([see](const Module& module, const Tensor& x, const Tensor& y) {
               const nb::gil_scoped_acquire lock;
               const nb::object of = nb::find(const_cast<Module*>(&module));
               const nb::object answer = see(of.is_valid() ? of : nb::none(), x, y);
               return answer.is_none() ? Tensor() : to_tensor(answer);
             });
           })
      .def("_hook_gradient",
           [](Module& self, std::function<nb::object(std::string, Tensor)> see) {
             return self.hook_gradient([see](const std::string& path, const Tensor& dy) {
               const nb::gil_scoped_acquire lock;
               const nb::object answer = see(path, dy);
               return answer.is_none() ? Tensor() : to_tensor(answer);
             });
           })
      .def("_unhook", &Module::unhook)
      .def("_attend",
           [](Module& self, nb::handle query, nb::handle memory, bool train, const std::optional<nn::Mask>& mask) {
             auto* attention = dynamic_cast<nn::MultiHeadAttention*>(&self);
             if (!attention) throw nb::type_error("attend: expected an nn.MultiHeadAttention");
             const Tensor q = to_tensor(query), kv = to_tensor(memory);
             return unlocked([&] { return attention->attend(q, kv, mode_of(train), mask.value_or(nn::Mask())); });
           })
      .def("_add_child",
           [](Module& self, const std::string& name, Module& child) { written(self).add_child(name, child); })
      .def("_add_variable",
           [](Module& self, const std::string& name, const Variable& v) { written(self).add_variable(name, v); })
      .def("_add_buffer",
           [](Module& self, const std::string& name, nb::handle v) {
             const Tensor value = to_tensor(v);
             return unlocked([&] { return written(self).add_buffer(name, value); });
           })
      .def("_remove", [](Module& self, const std::string& name) { written(self).remove_part(name); })
      .def("_learns_size", [](Module& self) { written(self).learns(); })
      .def("_use_masks", [](Module& self) { written(self).uses_masks = true; })
      .def("_parameter", [](Module& self, const std::string& name, nb::handle shape, nb::handle initial) {
        const Shape sizes = to_shape(shape);
        const nn::Initializer init = to_initializer(initial);
        return unlocked([&] { return written(self).own_parameter(name, sizes, init); });
      });
}

void bind_combinations(nb::module_& m) {
  nb::class_<nn::Sequential, Module>(m, "_Sequential", nb::type_slots(kSlots))
      .def("__init__",
           [](nn::Sequential* self, std::vector<Layer> layers) { new (self) nn::Sequential(std::move(layers)); })
      .def("__len__", &nn::Sequential::size)
      .def("_push",
           [](nn::Sequential& self, Layer layer, const std::string& name) { self.push(std::move(layer), name); });
  m.def("_layer", &layer_from_text);
  m.def("_lambda", [](const std::string& kind, std::function<Tensor(const Tensor&, bool)> f) -> Layer {
    return nn::layer(nn::Function(kind, [f](const Tensor& x, Mode mode) { return f(x, mode == Mode::train); }));
  });
  m.def(
      "_residual",
      [](Layer body, Layer shortcut, std::function<Tensor(const Tensor&)> activation) -> Layer {
        return nn::layer(nn::Residual(std::move(body), std::move(shortcut), std::move(activation)));
      },
      "body"_a, "shortcut"_a.none(), "activation"_a.none());
  m.def("_activation", [](const std::string& name) { return nn::activation_by_name(name).function; });
  m.def("_branches", [](const std::string& join, std::vector<Layer> layers) -> Layer {
    if (join != "concat" && join != "add" && join != "multiply")
      throw Error("branches: join is concat, add or multiply, got '" + join + "'." +
                  did_you_mean(join, {"concat", "add", "multiply"}));
    const nn::Join how = join == "add" ? nn::Join::add : join == "multiply" ? nn::Join::multiply : nn::Join::concat;
    return nn::layer(nn::Branches(how, std::move(layers)));
  });
  m.def("_tied_dense", [](const Layer& embedding, bool bias) -> Layer {
    const auto* table = dynamic_cast<const nn::Embedding*>(embedding.get());
    if (!table) throw nb::type_error("TiedDense: expected an nn.Embedding");
    return nn::layer(nn::TiedDense(*table, bias));
  });
  nb::class_<WatchScope>(m, "_Watch")
      .def("__init__", [](WatchScope* self, WatchScope::See see) { new (self) WatchScope(std::move(see)); })
      .def("enter", &WatchScope::enter)
      .def("exit", &WatchScope::exit);
  nb::class_<PrecisionScope>(m, "_Precision")
      .def("__init__", [](PrecisionScope* self, nb::handle dtype) { new (self) PrecisionScope(to_dtype(dtype)); })
      .def("enter", &PrecisionScope::enter)
      .def("exit", &PrecisionScope::exit);
  m.def("_place_evenly", [](Module& model) { unlocked([&] { nn::place_evenly(model); }); });
  m.def("_split_layers", [](Module& model) { unlocked([&] { nn::split_layers(model); }); });
  m.def("_add_loss", [](nb::handle loss) { nn::add_loss(to_tensor(loss)); });
  nb::class_<LossesScope>(m, "_AddedLosses")
      .def(nb::init<>())
      .def("enter", &LossesScope::enter)
      .def("exit", &LossesScope::exit)
      .def("total", &LossesScope::total);
  nb::class_<SyncScope>(m, "_SyncBatchNorm")
      .def(nb::init<>())
      .def("enter", &SyncScope::enter)
      .def("exit", &SyncScope::exit);
}

}  // namespace

void bind_nn(nb::module_& m) {
  nb::enum_<Mode>(m, "Mode").value("train", Mode::train).value("infer", Mode::infer);
  bind_summary(m);
  bind_mask(m);
  bind_module(m);
  bind_combinations(m);
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
      [](nb::handle init, nb::handle shape, std::int64_t seed, const std::string& stream) {
        const nn::Initializer initial = to_initializer(init);
        const Shape sizes = to_shape(shape);
        return unlocked([&] { return initial(sizes, {}, {.seed = seed, .stream = stream}).eval(); });
      },
      "init"_a, "shape"_a, "seed"_a = 0, "stream"_a = "");
  m.def("_network", [](const std::string& text, const std::string& name) -> Layer {
    return nn::layer(nn::network_from_toml(text, name).network);
  });
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
