// Operators of the user's own: from a formula on symbols, or from rules and kernels that are Python functions.
#include <cstring>

#include "ops.h"

namespace varve::python {
namespace {

using Tensors = std::vector<Tensor>;

// A Python function that is kept for the life of the process, as the record of an operator is: static destructors run
// after the interpreter has gone, so it is never given back.
class Forever {
 public:
  explicit Forever(nb::handle function) : function_(function.inc_ref().ptr()) {}
  nb::handle get() const { return function_; }

 private:
  PyObject* function_;
};

// ---- symbols

Expr symbol(nb::handle value) {
  if (nb::isinstance<Expr>(value)) return nb::cast<Expr>(value);
  if (!PyFloat_Check(value.ptr()) && !PyLong_Check(value.ptr()))
    throw nb::next_overload();  // Python then asks the other operand, and says TypeError
  return Expr(nb::cast<double>(value));
}

using Two = Expr (*)(Expr, Expr);
void bind_two(nb::class_<Expr>& c, const char* name, const char* reversed, Two f) {
  c.def(
      name, [f](const Expr& a, nb::handle b) { return f(a, symbol(b)); }, nb::is_operator(),
      nb::sig(("def " + std::string(name) + "(self, other: Expr | float) -> Expr").c_str()));
  if (reversed)
    c.def(
        reversed, [f](const Expr& b, nb::handle a) { return f(symbol(a), b); }, nb::is_operator(),
        nb::sig(("def " + std::string(reversed) + "(self, other: Expr | float) -> Expr").c_str()));
}

void bind_symbols(nb::module_& m) {
  nb::class_<Expr> c(m, "Expr", R"(A symbol inside a formula: what an elementwise operator does to one element.

Arithmetic, comparisons and varve's elementwise functions make larger ones; vv.where(condition, a, b) chooses.

>>> vv.elementwise(lambda x: x * vv.sigmoid(2 * x), name="swish2").formula
'x0 * sigmoid(2 * x0)')");
  using expr::operator+, expr::operator-, expr::operator*, expr::operator/;
  bind_two(c, "__add__", "__radd__", [](Expr a, Expr b) { return a + b; });
  bind_two(c, "__sub__", "__rsub__", [](Expr a, Expr b) { return a - b; });
  bind_two(c, "__mul__", "__rmul__", [](Expr a, Expr b) { return a * b; });
  bind_two(c, "__truediv__", "__rtruediv__", [](Expr a, Expr b) { return a / b; });
  bind_two(c, "__mod__", "__rmod__", expr::mod);
  bind_two(c, "__pow__", "__rpow__", expr::pow);
  bind_two(c, "__lt__", nullptr, [](Expr a, Expr b) { return expr::operator<(a, b); });
  bind_two(c, "__le__", nullptr, [](Expr a, Expr b) { return expr::operator<=(a, b); });
  bind_two(c, "__gt__", nullptr, [](Expr a, Expr b) { return expr::operator>(a, b); });
  bind_two(c, "__ge__", nullptr, [](Expr a, Expr b) { return expr::operator>=(a, b); });
  bind_two(c, "__eq__", nullptr, [](Expr a, Expr b) { return expr::operator==(a, b); });
  bind_two(c, "__ne__", nullptr, [](Expr a, Expr b) { return expr::operator!=(a, b); });
  bind_two(c, "__and__", "__rand__", [](Expr a, Expr b) { return expr::operator&&(a, b); });
  bind_two(c, "__or__", "__ror__", [](Expr a, Expr b) { return expr::operator||(a, b); });
  c.def("__neg__", [](const Expr& a) { return -a; });
  c.def("__abs__", [](const Expr& a) { return expr::abs(a); });
  c.def("__invert__", [](const Expr& a) { return expr::operator!(a); });
  c.def("__repr__", [](const Expr& a) { return expr::print(a); });
  c.def("__bool__", [](const Expr&) -> bool {
    throw nb::type_error(
        "the truth of a symbol is not known while a formula is written: use varve.where(condition, a, b)");
  });
  c.def("derivative", &expr::derivative, "input"_a = 0, R"(The derivative by an input, as a symbol.

>>> vv.Expr.input(0).derivative()
1)");
  c.def_static(
      "input", [](int index) { return Expr::input(index); }, "index"_a, R"(The symbol of an argument of a formula.

>>> vv.Expr.input(0) + 1
x0 + 1)");
}

// The expressions as a formula of so many inputs.
expr::Formula formula_of(std::size_t arity, std::vector<Expr> exprs) {
  const auto at = [exprs = std::move(exprs)](const std::vector<Expr>& in) {
    std::vector<Expr> out;
    for (const Expr& e : exprs) out.push_back(expr::substitute(e, in));
    return out;
  };
  switch (arity) {
    case 1:
      return [at](Expr a) { return at({a}); };
    case 2:
      return [at](Expr a, Expr b) { return at({a, b}); };
    case 3:
      return [at](Expr a, Expr b, Expr c) { return at({a, b, c}); };
    case 4:
      return [at](Expr a, Expr b, Expr c, Expr d) { return at({a, b, c, d}); };
    default:
      throw Error("elementwise: a formula takes one to three inputs, got " + std::to_string(arity) + ".");
  }
}

ResultType to_result(const std::string& name) {
  if (name == "promoted") return ResultType::promoted;
  if (name == "floating") return ResultType::floating;
  if (name == "predicate") return ResultType::predicate;
  throw Error("elementwise: result must be 'promoted', 'floating' or 'predicate', got '" + name + "'.");
}

// ---- general operators

Attr to_attr(const std::string& key, nb::handle value) {
  if (PyBool_Check(value.ptr())) return nb::cast<bool>(value);
  if (nb::isinstance<DType>(value)) return nb::cast<DType>(value);
  const Where where{"an operator", key.c_str(), false};
  if (PyIndex_Check(value.ptr()) && !PySequence_Check(value.ptr())) return to_integer(value, where);
  if (PyFloat_Check(value.ptr())) return nb::cast<double>(value);
  if (PyUnicode_Check(value.ptr())) return to_text(value, where);
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) return Ints(to_integers(value, where));
  wrong_kind(where, "a bool, a number, a string, an element type or integers", value);
}

nb::dict keywords(const Attrs& attrs) {
  nb::dict all;
  for (const auto& [key, attr] : attrs.entries()) {
    nb::object value = nb::none();
    if (const auto* flag = attr.get<bool>()) value = nb::cast(*flag);
    if (const auto* whole = attr.get<std::int64_t>()) value = nb::cast(*whole);
    if (const auto* number = attr.get<double>()) value = nb::cast(*number);
    if (const auto* text = attr.get<std::string>()) value = nb::cast(*text);
    if (const auto* ints = attr.get<Ints>()) value = nb::cast(*ints);
    if (const auto* dtype = attr.get<DType>()) value = nb::cast(*dtype);
    all[key.c_str()] = value;
  }
  return all;
}

// One value or a list of them.
template <class T>
std::vector<T> several(const std::string& op, const char* rule, nb::handle result, const char* expected) {
  std::vector<T> all;
  T one{};
  if (nb::try_cast<T>(result, one)) return {one};
  if (!nb::isinstance<nb::list>(result) && !nb::isinstance<nb::tuple>(result))
    wrong_kind({op, rule, false}, expected, result);
  for (const nb::handle item : result) {
    if (!nb::try_cast<T>(item, one)) wrong_kind({op, rule, false}, expected, item);
    all.push_back(one);
  }
  return all;
}

nb::object tensor_or_none(const Tensor& t) { return t.defined() ? nb::cast(t) : nb::none(); }

ShapeRule shape_rule(nb::handle function) {
  return [f = Forever(function)](const Call& call) {
    const nb::gil_scoped_acquire lock;
    nb::list types;
    for (const TensorType& type : call.in) types.append(type);
    const nb::object result = f.get()(*types, **keywords(call.attrs));
    return several<TensorType>(call.op.name, "what shape returns", result, "a varve.TensorType, or a list of them");
  };
}

Decomposition decomposition(const std::string& name, nb::handle function) {
  return [f = Forever(function), name](const Tensors& in, const Attrs& attrs) {
    const nb::gil_scoped_acquire lock;
    const nb::object result = f.get()(*nb::cast(in), **keywords(attrs));
    return several<Tensor>(name, "what decompose returns", result, "a tensor, or a list of them");
  };
}

// A function of inputs, which of them are batched, and how many examples there are; or the name of a ready rule.
BatchingRule batching_rule(nb::handle rule) {
  if (nb::isinstance<nb::str>(rule)) {
    const std::string name = nb::cast<std::string>(rule);
    if (name == "leading") return batch_leading;
    if (name == "along_axis") return batch_along_axis;
    if (name == "one_by_one") return batch_one_by_one;
    throw nb::value_error(
        ("define: batching is '" + name + "'; expected a function, or leading, along_axis or one_by_one").c_str());
  }
  return [f = Forever(rule)](const Batching& call) -> std::optional<Tensors> {
    const nb::gil_scoped_acquire lock;
    const nb::object result = f.get()(nb::cast(call.in), nb::cast(call.batched), call.size, **keywords(call.attrs));
    if (result.is_none()) return std::nullopt;
    return several<Tensor>(call.op.name, "what batching returns", result, "a tensor, or a list of them");
  };
}

GradientRule gradient_rule(nb::handle function) {
  return [f = Forever(function)](const Vjp& v) {
    const nb::gil_scoped_acquire lock;
    nb::list dys;
    for (const Tensor& dy : v.dys) dys.append(tensor_or_none(dy));
    const nb::object result = f.get()(nb::cast(v.in), nb::cast(v.out), dys, **keywords(v.attrs));
    if (!nb::isinstance<nb::list>(result) && !nb::isinstance<nb::tuple>(result))
      wrong_kind({v.op.name, "what gradient returns", false}, "a list with a gradient, or None, for each input",
                 result);
    Tensors all;
    for (const nb::handle item : result) all.push_back(to_tensor(item, {v.op.name, "a gradient", true}));
    if (all.size() != v.in.size())
      throw nb::value_error((v.op.name + ": gradient returned " + std::to_string(all.size()) + " values for " +
                             std::to_string(v.in.size()) + " inputs")
                                .c_str());
    return all;
  };
}

// Arrays of its own for each call, since a Python function may keep them; what it returns is copied to the program.
KernelFn kernel_of(const std::string& name, nb::handle function) {
  return [f = Forever(function), name](const KernelCall& call) {
    const nb::gil_scoped_acquire lock;
    nb::list arrays;
    for (const KernelView& view : call.in)
      arrays.append(nb::cast(detail::from_bytes(view.data, view.type)).attr("numpy")());
    const nb::object result = f.get()(*arrays, **keywords(call.attrs));
    const bool many = nb::isinstance<nb::list>(result) || nb::isinstance<nb::tuple>(result);
    const nb::object results = many ? result : nb::object(nb::make_tuple(result));
    if (nb::len(results) != call.out.size())
      throw nb::value_error((name + ": the kernel returned " + std::to_string(nb::len(results)) + " arrays, expected " +
                             std::to_string(call.out.size()))
                                .c_str());
    std::size_t i = 0;
    for (const nb::handle array : results) {
      const KernelView& out = call.out[i++];
      const Tensor value = to_tensor(array, {name, "what the kernel returns", false});
      if (value.shape() != out.type.shape || value.dtype() != out.type.dtype)
        throw nb::value_error((name + ": the kernel returned " + value.type().str() + ", expected " + out.type.str() +
                               ". Convert it with .astype.")
                                  .c_str());
      const void* data = unlocked([&] { return value.data(); });
      if (out.type.bytes()) std::memcpy(out.data, data, out.type.bytes());
    }
  };
}

void bind_types(nb::module_& m) {
  nb::class_<TensorType>(m, "TensorType", R"(An element type and a shape: what a shape rule is given, and returns.

>>> vv.TensorType("f32", (2, 3))
f32 [2, 3])")
      .def(
          "__init__",
          [](TensorType* self, nb::handle dtype, nb::handle shape) {
            const DType type = to_dtype(dtype, {"TensorType", "dtype", false});
            new (self) TensorType{type, Shape(to_integers(shape, {"TensorType", "shape", false}))};
          },
          "dtype"_a.none(), "shape"_a.none(), nb::sig("def __init__(self, dtype: DTypeLike, shape: ShapeLike) -> None"))
      .def_ro("dtype", &TensorType::dtype, "The element type.\n\n>>> vv.TensorType(\"f32\", 3).dtype\nvarve.f32")
      .def_prop_ro(
          "shape", [](const TensorType& t) { return nb::tuple(nb::cast(t.shape.vec())); },
          nb::sig("def shape(self) -> tuple[int, ...]"),
          "Sizes of the axes.\n\n>>> vv.TensorType(\"f32\", 3).shape\n(3,)")
      .def_prop_ro("bytes", &TensorType::bytes, "How much memory it takes.\n\n>>> vv.TensorType(\"f32\", 3).bytes\n12")
      .def(
          "__eq__",
          [](const TensorType& a, nb::handle b) {
            return nb::isinstance<TensorType>(b) && a == nb::cast<TensorType>(b);
          },
          "other"_a.none(), nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__repr__", &TensorType::str);
}

nb::object call_operator(const OpDef& op, nb::args inputs, nb::kwargs options) {
  if (op.record().elementwise()) {
    if (nb::len(options)) throw nb::type_error((op.name() + ": an elementwise operator has no options").c_str());
    if (static_cast<int>(nb::len(inputs)) != op.record().arity)
      throw nb::type_error((op.name() + ": expected " + std::to_string(op.record().arity) + " inputs, got " +
                            std::to_string(nb::len(inputs)))
                               .c_str());
    if (op.record().exprs.size() == 1 && op.record().arity <= 3) {
      std::vector<nb::handle> all;
      for (const nb::handle input : inputs) all.push_back(input);
      return call_elementwise(op, all);
    }
  }
  const Tensors in = to_tensors(inputs, {op.name(), "inputs", false});
  Attrs attrs;
  for (const auto& [key, value] : options) {
    const std::string name = nb::cast<std::string>(key);
    attrs.set(name, to_attr(name, value));
  }
  const Tensors out = unlocked([&] { return op.call(in, attrs); });
  return out.size() == 1 ? nb::cast(out[0]) : nb::cast(out);
}

}  // namespace

void bind_own(nb::module_& m) {
  bind_symbols(m);
  bind_types(m);
  nb::class_<OpDef>(m, "Operator", R"(An operator: one of the library's (vv.find_operator) or one of your own.

Call it with tensors, and with its fixed choices as keywords.

>>> vv.find_operator("relu")(vv.tensor([-1.0, 2.0])).tolist()
[0.0, 2.0])")
      .def("__call__", &call_operator, "inputs"_a, "options"_a,
           nb::sig("def __call__(self, *inputs: TensorLike, **options: Any) -> Any"))
      .def_prop_ro("name", &OpDef::name, "What it is called.\n\n>>> vv.find_operator(\"relu\").name\n'relu'")
      .def_prop_ro(
          "doc", [](const OpDef& op) { return op.record().doc; },
          "What it does, in a line.\n\n>>> vv.find_operator(\"relu\").doc\n'max(x, 0)'")
      .def_prop_ro(
          "family", [](const OpDef& op) { return op.record().family; },
          "The kind of operator.\n\n>>> vv.find_operator(\"relu\").family\n'activation'")
      .def_prop_ro(
          "arity", [](const OpDef& op) { return op.record().arity; },
          "The number of inputs; -1: any.\n\n>>> vv.find_operator(\"add\").arity\n2")
      .def_prop_ro(
          "formula",
          [](const OpDef& op) -> std::optional<std::string> {
            if (!op.record().elementwise()) return std::nullopt;
            return expr::print(op.record().exprs[0]);
          },
          "What an elementwise operator does to one element; None for others.\n\n"
          ">>> vv.find_operator(\"square\").formula\n'x0 * x0'")
      .def("__repr__", [](const OpDef& op) { return "<varve operator " + op.name() + ">"; });
  m.def(
      "operators",
      [] {
        std::vector<OpDef> all;
        for (const OpRecord* record : operators()) all.emplace_back(record);
        return all;
      },
      nb::sig("def operators() -> list[Operator]"),
      "The library's operators, by family.\n\n>>> \"matmul\" in [op.name for op in vv.operators()]\nTrue");
  m.def(
      "find_operator",
      [](nb::handle name) {
        return OpDef(&find_operator(to_text(name, {"find_operator", "name", false})));
      },
      "name"_a.none(), nb::sig("def find_operator(name: str) -> Operator"),
      "An operator of the library by its name; an unknown one is an error that names the nearest.\n\n"
      ">>> vv.find_operator(\"exp\")\n<varve operator exp>");
  m.def("_elementwise",
        [](const std::string& name, const std::string& doc, std::size_t arity, const std::vector<Expr>& outputs,
           const std::vector<Expr>& derivative, const std::string& result, bool differentiable, bool smooth) {
          Elementwise e;
          e.name = name;
          e.doc = doc;
          e.formula = formula_of(arity, outputs);
          if (!derivative.empty()) e.derivative = formula_of(arity + outputs.size(), derivative);
          e.result = to_result(result);
          e.differentiable = differentiable;
          e.smooth = smooth;
          return elementwise(std::move(e));
        });
  m.def(
      "_define",
      [](const std::string& name, const std::string& doc, int arity, nb::object shape, nb::object decompose,
         nb::object gradient, nb::object batching, bool differentiable, bool pure, bool random) {
        OpRecord record;
        record.name = name;
        record.doc = doc;
        record.family = "user";
        record.arity = arity;
        record.shape = shape_rule(shape);
        if (!decompose.is_none()) record.decompose = decomposition(name, decompose);
        if (!gradient.is_none()) record.gradient = gradient_rule(gradient);
        if (!batching.is_none()) record.batching = batching_rule(batching);
        record.differentiable = differentiable;
        record.pure = pure;
        record.random = random;
        return define(std::move(record));
      },
      "name"_a, "doc"_a, "arity"_a, "shape"_a, "decompose"_a.none(), "gradient"_a.none(), "batching"_a.none(),
      "differentiable"_a, "pure"_a, "random"_a);
  m.def("_add_kernel", [](const OpDef& op, nb::object kernel, const std::string& device) {
    add_kernel(op, kernel_of(op.name(), kernel), device);
  });
}

}  // namespace varve::python
