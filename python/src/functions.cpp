// Gradients and programs of Python functions. Functions arrive as functions of flat lists of tensors: nests of lists
// and dicts are taken apart in Python (varve/_nests.py).
#include <chrono>

#include "arguments.h"

namespace varve::python {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;  // calls Python, with the interpreter's lock

// A Python function that a program traces. The garbage collector sees it through the program's Python object, so that
// a model whose attribute is a compiled method of its own is collected.
struct Traced {
  nb::object function;

  Tensors operator()(const Tensors& args) const {
    const nb::gil_scoped_acquire lock;
    if (!function.is_valid()) throw Error("compile: the function has been collected as garbage.");
    return nb::cast<Tensors>(function(args));
  }
};

// A compiled function of flat lists.
class Compiled {
 public:
  Compiled(nb::object f, CompileOptions options) : traced_(std::make_shared<Traced>(Traced{std::move(f)})) {
    fn_ = detail::compile([traced = traced_](const Tensors& args) { return (*traced)(args); }, std::move(options));
  }
  // The library may keep the program, and with it `traced`, a little longer: the Python object goes here.
  ~Compiled() { clear(); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  nb::handle function() const { return traced_->function; }
  void clear() { traced_->function.reset(); }

  Tensors call(const Tensors& args) {
    return unlocked([&] {
      Tensors results;
      run(args, results);
      return results;
    });
  }
  // Seconds a call takes without Python, over `repeats` calls.
  double seconds(const Tensors& args, int repeats) {
    return unlocked([&] {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < repeats; ++i) {
        Tensors results;
        run(args, results);
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      return took.count() / repeats;
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
  std::size_t programs() {
    return unlocked([&] { return detail::programs(*fn_); });
  }

 private:
  void run(const Tensors& args, Tensors& results) {
    constexpr std::size_t kFew = 8;
    const Tensor* few[kFew];
    std::vector<const Tensor*> many;
    const Tensor** pointers = few;
    if (args.size() > kFew) {
      many.resize(args.size());
      pointers = many.data();
    }
    for (std::size_t i = 0; i < args.size(); ++i) pointers[i] = &args[i];
    detail::call(*fn_, pointers, args.size(), results);
  }

  std::shared_ptr<Traced> traced_;
  std::shared_ptr<detail::CompiledFn> fn_;
};

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Compiled>(self)->function().ptr());
  return 0;
}
int clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Compiled>(self)->clear();
  return 0;
}
PyType_Slot compiled_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

void bind_profiles(nb::module_& m) {
  nb::class_<ProfileRow>(m, "ProfileRow",
                         R"(The time spent in one kernel of a program, and what the machine could have done meanwhile.

>>> f = vv.compile(lambda x: vv.exp(x) + 1)
>>> f.profile(vv.ones(10), repeats=2).rows[0].calls
2)")
      .def_ro("kernel", &ProfileRow::kernel, "Who computes it.")
      .def_ro("op", &ProfileRow::op, "The operator, or those that were fused.")
      .def_ro("shape", &ProfileRow::shape, "What it computes on.")
      .def_ro("origin", &ProfileRow::origin, "The scope it was recorded in: a layer's path.")
      .def_ro("calls", &ProfileRow::calls, "How often it ran.")
      .def_ro("ms", &ProfileRow::ms, "Milliseconds a call, on average.")
      .def_ro("flops", &ProfileRow::flops, "Floating-point operations a call.")
      .def_ro("bytes", &ProfileRow::bytes, "Bytes moved a call.")
      .def_ro("flops_share", &ProfileRow::flops_share, "Its rate of operations, as a share of the machine's peak.")
      .def_ro("bytes_share", &ProfileRow::bytes_share, "Its rate of bytes, as a share of the machine's peak.");
  nb::class_<Profile>(m, "Profile",
                      R"(The times of a program's kernels, in the order of execution; print it for a table.

>>> profile = vv.compile(lambda x: vv.exp(x) + 1).profile(vv.ones(10), repeats=2)
>>> profile.total_ms > 0 and "exp" in str(profile)
True)")
      .def_ro("rows", &Profile::rows, nb::sig("def rows(self) -> list[ProfileRow]"), "A row for each kernel.")
      .def_ro("total_ms", &Profile::total_ms, "Milliseconds of one run.")
      .def("table", &Profile::table, R"(The rows as text.

>>> "ms" in vv.compile(lambda x: x + 1).profile(vv.ones(10), repeats=1).table()
True)")
      .def("chrome_trace", &Profile::chrome_trace, R"(The rows as a trace that Perfetto and chrome://tracing open.

>>> vv.compile(lambda x: x + 1).profile(vv.ones(10), repeats=1).chrome_trace()[:1]
'{')")
      .def("_repr_html_",
           [](const Profile& profile) {
             return "<pre>" + nb::cast<std::string>(nb::module_::import_("html").attr("escape")(profile.table())) +
                    "</pre>";
           })
      .def("__str__", &Profile::table)
      .def("__repr__", &Profile::table);
  nb::class_<Cost>(m, "Cost", R"(Operations and bytes.

>>> vv.cost(vv.ones(10) * 2).bytes > 0
True)")
      .def_ro("flops", &Cost::flops, "Floating-point operations.")
      .def_ro("bytes", &Cost::bytes, "Bytes read and written.")
      .def("__repr__", [](const Cost& c) {
        return "Cost(flops=" + std::to_string(static_cast<std::int64_t>(c.flops)) +
               ", bytes=" + std::to_string(static_cast<std::int64_t>(c.bytes)) + ")";
      });
}

// Names what is recorded meanwhile; a with statement opens and closes it.
class NamedScope {
 public:
  explicit NamedScope(std::string name) : name_(std::move(name)) {}
  NamedScope& enter() {
    if (scope_) throw Error("Scope: '" + name_ + "' is open already; make another one.");
    scope_ = std::make_unique<Scope>(name_);
    return *this;
  }
  void leave() { scope_.reset(); }

 private:
  std::string name_;
  std::unique_ptr<Scope> scope_;
};

void bind_scopes(nb::module_& m) {
  nb::class_<NamedScope>(m, "Scope",
                         R"(Names what this thread records meanwhile, for the profiler and for messages; scopes nest.

>>> with vv.Scope("block1"), vv.Scope("conv2"):
...     vv.Scope.path()
'block1.conv2')")
      .def(
          "__init__",
          [](NamedScope* self, nb::handle name) {
            new (self) NamedScope(to_text(name, {"Scope", "name", false}));
          },
          "name"_a.none(), nb::sig("def __init__(self, name: str) -> None"))
      .def("__enter__", &NamedScope::enter, nb::rv_policy::reference)
      .def(
          "__exit__", [](NamedScope& self, nb::args) { self.leave(); },
          nb::sig("def __exit__(self, *error: object) -> None"))
      .def_static(
          "path", [] { return Scope::path(); }, R"(The names of all scopes open in this thread.

>>> vv.Scope.path()
'')");
}

// What an exception of Python inside a function does to the library is what its own errors do: it goes through.
void bind_gradients(nb::module_& m) {
  m.def(
      "eval",
      [](nb::handle tensors) {
        const Tensors all = to_tensors(tensors, {"eval", "tensors", false});
        unlocked([&] { eval(all); });
      },
      "tensors"_a, nb::sig("def eval(tensors: Sequence[TensorLike]) -> None"),
      "Computes all of them at once: what they share is computed once.\n\n"
      ">>> import varve as vv\n>>> a = vv.tensor([1.0, 2.0])\n>>> vv.eval([a + 1, a * 2])");
  m.def(
      "gradient_rows",
      [](const Tensor& gradient) -> nb::object {
        const std::optional<GradientRows> known = unlocked([&] { return gradient_rows(gradient); });
        return known ? nb::object(nb::make_tuple(known->rows, known->values)) : nb::object(nb::none());
      },
      "gradient"_a, nb::sig("def gradient_rows(gradient: Tensor) -> tuple[Tensor, Tensor] | None"),
      "The rows and values of a gradient that is zero elsewhere, that of a table of which embedding or gather read a "
      "few; None where it is not known as such, or was computed already. A row may come several times: its values add "
      "up.\n\n"
      ">>> import varve as vv\n>>> table = vv.Variable(vv.zeros((9, 2)))\n>>> ids = vv.tensor([4, 7])\n"
      ">>> _, slopes = vv.value_and_grad(lambda: vv.embedding(table, ids).sum(), [table])\n"
      ">>> vv.gradient_rows(slopes[0])[0].tolist()\n[4, 7]");
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
      return std::pair(pullback.outputs,
                       std::function<Tensors(const Tensors&)>(
                           [pull = pullback.pull](const Tensors& dys) { return unlocked([&] { return pull(dys); }); }));
    });
  });
  m.def("_checkpoint",
        [](const Function& f, const Tensors& inputs) { return unlocked([&] { return checkpoint_many(f)(inputs); }); });
  m.def("_custom_vjp", [](const Function& f, const CustomVjp& rule, const Tensors& inputs) {
    return unlocked([&] { return custom_gradient(f, rule)(inputs); });
  });
}

}  // namespace

void bind_functions(nb::module_& m) {
  bind_profiles(m);
  bind_scopes(m);
  bind_gradients(m);
  nb::class_<Compiled>(m, "_Compiled", nb::type_slots(compiled_slots))
      .def("__init__",
           [](Compiled* self, nb::object f, const std::string& device, const std::string& name, bool tf32) {
             new (self) Compiled(std::move(f), {device, name, tf32});
           })
      .def("__call__", &Compiled::call)
      .def("seconds", &Compiled::seconds)
      .def("peak_bytes", &Compiled::peak_bytes)
      .def("text", &Compiled::text)
      .def("graphviz", &Compiled::graphviz)
      .def("profile", &Compiled::profile)
      .def("programs", &Compiled::programs);
  op(
      m, "bytes", [](std::int64_t count) { return bytes(count); }, R"(A number of bytes as a person reads it.

>>> vv.bytes(12100000)
'12.1 MB')",
      "count"_a);
  op(
      m, "size_of", [](DType dtype) { return size_of(dtype); },
      "The bytes of one element.\n\n>>> vv.size_of(\"bf16\")\n2", "dtype"_a);
  op(
      m, "is_floating", [](DType dtype) { return is_floating(dtype); },
      "Whether an element type holds fractions.\n\n>>> vv.is_floating(vv.bf16)\nTrue", "dtype"_a);
  op(
      m, "is_integer", [](DType dtype) { return is_integer(dtype); },
      "Whether an element type holds integers; bool is neither.\n\n>>> vv.is_integer(\"u8\")\nTrue", "dtype"_a);
  op(m, "promote", promote, R"(The type of `a op b`: floating beats integer beats bool, and within a kind the wider one.

>>> vv.promote("f16", "bf16"), vv.promote("i32", "f16")
(varve.f32, varve.f16))",
     "a"_a, "b"_a);
  op(m, "has_own_memory", has_own_memory,
     R"(Whether a device ("": the current one) reads memory of its own, as a GPU does.

>>> vv.has_own_memory("cpu")
False)",
     "device"_a = "");
  m.def(
      "cost",
      [](nb::handle output, nb::handle start) {
        const Tensor y = to_tensor(output, {"cost", "output", false});
        const Tensors from = to_tensors(start, {"cost", "start", false});
        return unlocked([&] { return cost(y, from); });
      },
      "output"_a.none(), "start"_a = nb::make_tuple(),
      nb::sig("def cost(output: TensorLike, start: Sequence[TensorLike] = ()) -> Cost"),
      R"(What it takes to compute a tensor: the sum over what is recorded and has not run yet, from `start` on.

>>> vv.cost(vv.ones((10, 20)).eval() @ vv.ones((20, 30)).eval()).flops
12000.0)");
}

}  // namespace varve::python
