// Gradients and programs of Python functions. Functions arrive as functions of flat lists of tensors: nests of lists
// and dicts are taken apart in Python (varve/_nests.py).
#include "bindings.h"

namespace varve::python {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;  // calls Python, with the interpreter's lock

// A compiled function of flat lists.
class Compiled {
 public:
  Compiled(Function f, CompileOptions options) : fn_(detail::compile(std::move(f), std::move(options))) {}

  Tensors call(const Tensors& args) {
    return unlocked([&] {
      std::vector<const Tensor*> pointers;
      pointers.reserve(args.size());
      for (const Tensor& arg : args) pointers.push_back(&arg);
      Tensors results;
      detail::call(*fn_, pointers.data(), pointers.size(), results);
      return results;
    });
  }
  std::int64_t peak_bytes(const Tensors& args) {
    return unlocked([&] { return detail::peak_bytes(*fn_, args); });
  }
  std::string text(const Tensors& args) {
    return unlocked([&] { return detail::text(*fn_, args); });
  }
  std::string graphviz(const Tensors& args) {
    return unlocked([&] { return detail::graphviz(*fn_, args); });
  }
  Profile profile(const Tensors& args, int repeats) {
    return unlocked([&] { return detail::profile(*fn_, args, repeats); });
  }
  std::size_t programs() { return detail::programs(*fn_); }

 private:
  std::shared_ptr<detail::CompiledFn> fn_;
};

}  // namespace

void bind_functions(nb::module_& m) {
  nb::class_<ProfileRow>(m, "ProfileRow")
      .def_ro("kernel", &ProfileRow::kernel)
      .def_ro("op", &ProfileRow::op)
      .def_ro("shape", &ProfileRow::shape)
      .def_ro("origin", &ProfileRow::origin)
      .def_ro("calls", &ProfileRow::calls)
      .def_ro("ms", &ProfileRow::ms)
      .def_ro("flops", &ProfileRow::flops)
      .def_ro("bytes", &ProfileRow::bytes);
  nb::class_<Profile>(m, "Profile")
      .def_ro("rows", &Profile::rows)
      .def_ro("total_ms", &Profile::total_ms)
      .def("chrome_trace", &Profile::chrome_trace)
      .def("__str__", &Profile::table);
  nb::class_<Compiled>(m, "_Compiled")
      .def("__init__",
           [](Compiled* self, Function f, const std::string& device, const std::string& name, bool tf32) {
             new (self) Compiled(std::move(f), {device, name, tf32});
           })
      .def("__call__", &Compiled::call)
      .def("peak_bytes", &Compiled::peak_bytes)
      .def("text", &Compiled::text)
      .def("graphviz", &Compiled::graphviz)
      .def("profile", &Compiled::profile)
      .def("programs", &Compiled::programs);

  m.def("_value_and_grads", [](const std::function<Tensor(const Tensors&)>& f, const Tensors& inputs) {
    return unlocked([&] {
      detail::ValueAndGrads r = detail::value_and_grads(f, inputs);
      return std::pair(r.value, r.grads);
    });
  });
  m.def("_value_and_variable_grads", [](const std::function<Tensor()>& f, const std::vector<Variable>& variables) {
    return unlocked([&] { return value_and_grad(f, variables); });
  });
  m.def("_gradients", [](const Tensors& outputs, const Tensors& seeds, const Tensors& wrt) {
    return unlocked([&] { return gradients(outputs, seeds, wrt); });
  });
  m.def("_vjp", [](const Function& f, const Tensors& inputs) {
    return unlocked([&] {
      Pullback pullback = vjp(f, inputs);
      return std::pair(pullback.outputs, std::function<Tensors(const Tensors&)>(
                                             [pull = pullback.pull](const Tensors& dys) { return pull(dys); }));
    });
  });
  m.def("_checkpoint",
        [](const Function& f, const Tensors& inputs) { return unlocked([&] { return checkpoint_many(f)(inputs); }); });
  m.def("_custom_vjp", [](const Function& f, const CustomVjp& rule, const Tensors& inputs) {
    return unlocked([&] { return custom_gradient(f, rule)(inputs); });
  });
  m.def(
      "bytes", [](std::int64_t count) { return bytes(count); }, "count"_a, "12100000 as \"12.1 MB\".");
}

}  // namespace varve::python
