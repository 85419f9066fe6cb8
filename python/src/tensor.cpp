// Tensors and variables, and the way to and from NumPy and DLPack.
#include <algorithm>

#include "arguments.h"

namespace varve::python {
namespace {

struct TypeName {
  DType dtype;
  const char* numpy;
};
constexpr TypeName kTypes[] = {{f64, "float64"}, {f32, "float32"}, {f16, "float16"}, {bf16, "bfloat16"}, {i64, "int64"},
                               {i32, "int32"},   {i8, "int8"},     {u8, "uint8"},    {boolean, "bool"}};

nb::dlpack::dtype dlpack_type(DType dtype) {
  using nb::dlpack::dtype_code;
  const auto code = dtype == bf16        ? dtype_code::Bfloat
                    : is_floating(dtype) ? dtype_code::Float
                    : dtype == boolean   ? dtype_code::Bool
                    : dtype == u8        ? dtype_code::UInt
                                         : dtype_code::Int;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(size_of(dtype) * 8), 1};
}

nb::object numpy() { return nb::module_::import_("numpy"); }

// The type that holds NumPy's type of this name: the same one, or the next wider; null: none.
const char* type_for(const std::string& name) {
  if (name == "int16" || name == "uint16") return "int32";
  if (name == "uint32" || name == "uint64") return "int64";
  for (const TypeName& type : kTypes)
    if (name == type.numpy) return type.numpy;
  return nullptr;
}

// Anything as an array that we can read: row-major, aligned, of this machine's byte order, of a type that we have.
// Shares memory where all that holds.
nb::object readable(nb::handle value) {
  if (nb::hasattr(value, "mask") && nb::hasattr(value, "filled"))
    throw Error("tensor: a masked array has elements without a value. Fill them first, with .filled(0) say.");
  nb::object array = numpy().attr("asarray")(value, "order"_a = "C");
  const nb::object dtype = array.attr("dtype");
  const std::string name = nb::cast<std::string>(nb::str(dtype.attr("name")));
  const char* const wanted = type_for(name);
  if (!wanted)
    throw Error("tensor: no type of Varve holds NumPy's " + name +
                ". Convert it first, with .astype(\"float32\") say.");
  if (name == "uint64" && nb::cast<std::size_t>(array.attr("size")) &&
      nb::cast<std::uint64_t>(array.attr("max")().attr("item")()) > INT64_MAX)
    throw Error(
        "tensor: the array has values above 2^63 - 1, which int64 cannot hold. Convert it first, with "
        ".astype(\"float64\") say.");
  if (name != wanted) return array.attr("astype")(wanted);
  if (!nb::cast<bool>(dtype.attr("isnative"))) return array.attr("astype")(dtype.attr("newbyteorder")("="));
  if (!nb::cast<bool>(array.attr("flags").attr("aligned"))) return array.attr("copy")();
  return array;
}

TensorType type_of(nb::handle array) {
  TensorType type;
  const std::string name = nb::cast<std::string>(nb::str(array.attr("dtype").attr("name")));
  for (const TypeName& known : kTypes)
    if (name == known.numpy) type.dtype = known.dtype;
  for (const nb::handle size : nb::cast<nb::tuple>(array.attr("shape")))
    type.shape.push_back(nb::cast<std::int64_t>(size));
  return type;
}

const void* address_of(nb::handle array) {
  const nb::object place = nb::cast<nb::dict>(array.attr("__array_interface__"))["data"];
  return reinterpret_cast<const void*>(nb::cast<std::uintptr_t>(nb::cast<nb::tuple>(place)[0]));
}

// An array of NumPy that is read as it lies, which is what a loop gives at each step: no attribute of it is asked for.
using PlainArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

bool is_plain(nb::handle value, PlainArray& array, TensorType& type) {
  // Of these classes and no others: masked arrays say more than their memory, and dates do not say what theirs is.
  static const std::vector<PyObject*> classes = [] {
    std::vector<PyObject*> all;
    for (const char* name : {"ndarray", "float32", "float16", "int64", "int32", "int8", "uint8", "bool_"})
      all.push_back(nb::object(numpy().attr(name)).release().ptr());
    return all;
  }();
  if (std::find(classes.begin(), classes.end(), value.type().ptr()) == classes.end()) return false;
  if (!nb::try_cast<PlainArray>(value, array, false)) return false;
  const auto known = std::find_if(std::begin(kAllDTypes), std::end(kAllDTypes),
                                  [&](DType dtype) { return array.dtype() == dlpack_type(dtype); });
  if (known == std::end(kAllDTypes)) return false;
  type.dtype = *known;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis)
    type.shape.push_back(static_cast<std::int64_t>(array.shape(axis)));
  return reinterpret_cast<std::uintptr_t>(array.data()) % size_of(type.dtype) == 0;
}

// Reads on another thread's time: the lock is not held while the value is computed.
const void* computed(const Tensor& tensor) {
  return unlocked([&] { return tensor.data(); });
}

nb::object owner_of(const Tensor& tensor) {
  return nb::capsule(new Tensor(tensor), [](void* held) noexcept { delete static_cast<Tensor*>(held); });
}

std::vector<std::size_t> sizes_of(const Tensor& tensor) { return {tensor.shape().begin(), tensor.shape().end()}; }

nb::object numpy_bfloat16() {
  try {
    return nb::module_::import_("ml_dtypes").attr("bfloat16");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
  }
  throw nb::import_error(
      "NumPy has no bf16 of its own: install the package ml_dtypes, or convert first, with .astype(\"f32\").");
}

// Bytes and back, for pickling: no other package is needed to read a pickle.
nb::bytes raw(const Tensor& tensor) { return nb::bytes(computed(tensor), tensor.type().bytes()); }

Tensor from_raw(const std::string& dtype, nb::handle shape, const nb::bytes& bytes) {
  const TensorType type{parse_dtype(dtype), to_shape(shape)};
  if (type.bytes() != bytes.size())
    throw Error("tensor: " + std::to_string(bytes.size()) + " bytes do not fill " + type.str() + ".");
  return detail::from_bytes(bytes.data(), type);
}

nb::object to_numpy(const Tensor& tensor) {
  const void* data = computed(tensor);
  const std::vector<std::size_t> shape = sizes_of(tensor);
  const bool is_bf16 = tensor.dtype() == bf16;
  nb::ndarray<nb::numpy, nb::ro> array(data, shape.size(), shape.data(), owner_of(tensor), nullptr,
                                       is_bf16 ? nb::dtype<std::uint16_t>() : dlpack_type(tensor.dtype()));
  nb::object result = nb::cast(std::move(array));
  if (is_bf16) result = result.attr("view")(numpy_bfloat16());
  if (tensor.dtype() == i64) result = result.attr("view")("int64");  // nanobind's is "long long", which NumPy prints
  return result;
}

nb::object item(const Tensor& tensor) {
  if (tensor.numel() != 1)
    throw Error("item: needs a tensor with one element, got shape " + tensor.shape().str() + ".");
  computed(tensor);
  if (tensor.dtype() == boolean) return nb::cast(tensor.item<bool>());
  if (is_floating(tensor.dtype())) return nb::cast(tensor.item<double>());
  return nb::cast(tensor.item<std::int64_t>());
}

Tensor as_type(const Tensor& tensor, nb::handle dtype) {
  const DType wanted = to_dtype(dtype);
  return unlocked([&] { return tensor.to(wanted); });
}

nb::tuple shape_tuple(const Shape& shape) {
  nb::list sizes;
  for (const std::int64_t size : shape) sizes.append(size);
  return nb::tuple(sizes);
}

}  // namespace

Tensor share_array(nb::handle value, bool must_share) {
  PlainArray plain;
  TensorType plain_type;
  if (is_plain(value, plain, plain_type)) {
    give_back_now();
    const void* const data = plain.data();
    const auto owner = std::make_shared<GiveBack>([plain = std::move(plain)] {});
    return from_memory(data, plain_type, [owner] {});
  }
  const nb::object array = readable(value);
  if (must_share && !array.is(value) && !nb::cast<bool>(numpy().attr("may_share_memory")(array, value)))
    throw Error(
        "asarray: copy=False cannot be kept: only an array in row-major order, aligned, of this machine's byte order "
        "and "
        "of a type that Varve has is shared. Pass copy=None.");
  const TensorType type = type_of(array);
  give_back_now();
  PyObject* const held = array.inc_ref().ptr();
  const auto owner = std::make_shared<GiveBack>([held] { Py_DECREF(held); });
  return from_memory(address_of(array), type, [owner] {});
}

Tensor copy_array(nb::handle value) {
  PlainArray plain;
  TensorType plain_type;
  if (is_plain(value, plain, plain_type)) return unlocked([&] { return detail::from_bytes(plain.data(), plain_type); });
  const nb::object array = readable(value);
  const void* const data = address_of(array);
  const TensorType type = type_of(array);
  return unlocked([&] { return detail::from_bytes(data, type); });
}

namespace {

std::optional<std::int64_t> whole_number(nb::handle value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow) return std::nullopt;
  return number;
}

}  // namespace

// Python's floats are f32 unless a type was asked for, which they then come to from f64.
Tensor to_tensor(nb::handle value, bool exact) {
  Tensor tensor;
  if (nb::try_cast<Tensor>(value, tensor)) return tensor;
  Variable variable;
  if (nb::try_cast<Variable>(value, variable)) return unlocked([&] { return variable.value(); });
  if (PyBool_Check(value.ptr())) return varve::tensor(nb::cast<bool>(value));
  if (PyLong_Check(value.ptr())) {
    if (const auto number = whole_number(value)) return varve::tensor(*number);
    throw Error("tensor: the integer does not fit in 64 bits. Make it a float first.");
  }
  if (PyFloat_Check(value.ptr())) {
    const double number = nb::cast<double>(value);
    return exact ? varve::tensor(number) : varve::tensor(static_cast<float>(number));
  }
  const bool of_numbers = nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value);
  if (!of_numbers) return is_foreign_array(value) ? from_dlpack(value, {}, true) : copy_array(value);
  const nb::object array = numpy().attr("asarray")(value);
  const bool is_f64 = nb::cast<std::string>(nb::str(array.attr("dtype").attr("name"))) == "float64";
  return copy_array(is_f64 && !exact ? array.attr("astype")("float32") : array);
}

Operand to_operand(nb::handle value) {
  if (PyBool_Check(value.ptr())) return Operand(nb::cast<bool>(value));
  if (PyLong_Check(value.ptr())) {
    if (const auto number = whole_number(value)) return Operand(*number);
    return Operand(nb::cast<double>(nb::float_(value)));
  }
  if (PyFloat_Check(value.ptr())) return Operand(nb::cast<double>(value));
  return Operand(to_tensor(value));
}

std::vector<Tensor> to_tensors(nb::handle values) {
  std::vector<Tensor> tensors;
  for (const nb::handle value : nb::cast<nb::sequence>(values)) tensors.push_back(to_tensor(value));
  return tensors;
}

DType to_dtype(nb::handle value) {
  DType dtype{};
  if (nb::try_cast<DType>(value, dtype)) return dtype;
  std::string text;
  if (!nb::try_cast<std::string>(value, text))
    text = nb::cast<std::string>(nb::str(numpy().attr("dtype")(value).attr("name")));
  for (const TypeName& type : kTypes)
    if (text == type.numpy) return type.dtype;
  return parse_dtype(text);
}

Shape to_shape(nb::handle value) { return Shape(to_integers(value, {"tensor", "the shape", false})); }

void bind_tensor(nb::module_& m) {
  nb::enum_<DType> dtypes(m, "DType", R"(An element type: varve.f32, varve.bf16, varve.i64 …

>>> import varve as vv
>>> vv.zeros((2,)).dtype == vv.f32, str(vv.bf16)
(True, 'bf16'))");
  for (const DType dtype : kAllDTypes) dtypes.value(dtype == boolean ? "bool_" : name(dtype), dtype);
  dtypes.export_values();

  nb::class_<Tensor>(m, "Tensor", nb::dynamic_attr(), nb::is_weak_referenceable(),
                     R"(Values that are computed when somebody reads them. Operators make new ones; nothing changes one.

>>> import varve as vv
>>> x = vv.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> (x @ x + 1).sum(axis=0)
tensor([24. 34.], f32))")
      .def("__init__",
           [](Tensor*, const nb::args&, const nb::kwargs&) {
             throw nb::type_error("a Tensor is made by varve.tensor(values), which copies, or varve.asarray(array).");
           })
      .def_prop_ro(
          "shape", [](const Tensor& t) { return shape_tuple(t.shape()); },
          "Sizes of the axes.\n\n>>> import varve as vv\n>>> vv.zeros((2, 3)).shape\n(2, 3)")
      .def_prop_ro("dtype", &Tensor::dtype,
                   "The element type.\n\n>>> import varve as vv\n>>> vv.tensor([1, 2]).dtype\nvarve.i64")
      .def_prop_ro("ndim", &Tensor::rank, "The number of axes.\n\n>>> import varve as vv\n>>> vv.zeros((2, 3)).ndim\n2")
      .def_prop_ro("size", &Tensor::numel,
                   "The number of elements.\n\n>>> import varve as vv\n>>> vv.zeros((2, 3)).size\n6")
      .def(
          "eval",
          [](nb::handle self) {
            const Tensor tensor = nb::cast<Tensor>(self);
            unlocked([&] { tensor.eval(); });
            return nb::borrow(self);
          },
          "Computes the value now, where programs run; reading it does so too.\n\n"
          ">>> import varve as vv\n>>> vv.ones((2,)).eval().ready()\nTrue")
      .def("ready", &Tensor::ready,
           "Whether reading it would neither compute nor wait.\n\n"
           ">>> import varve as vv\n>>> vv.exp(vv.ones((2,))).ready()\nFalse")
      .def("item", &item,
           "The one element, as a Python number.\n\n>>> import varve as vv\n>>> vv.tensor([2.5]).item()\n2.5")
      .def("numpy", &to_numpy,
           "The values as a read-only NumPy array that shares memory; bf16 is ml_dtypes.bfloat16.\n\n"
           ">>> import varve as vv\n>>> vv.tensor([1, 2]).numpy()\narray([1, 2])")
      .def("_raw", &raw)
      .def("_text", [](const Tensor& t) { return unlocked([&] { return t.str(); }); })
      .def("__len__",
           [](const Tensor& t) {
             if (t.rank() == 0) throw nb::type_error("len() of a tensor without axes");
             return t.dim(0);
           })
      .def("astype", &as_type, "dtype"_a,
           "The values in another type: varve.f16, \"f16\", numpy.float16.\n\n"
           ">>> import varve as vv\n>>> vv.tensor([1.5, 2.5]).astype(\"i32\").tolist()\n[1, 2]")
      .def("to", &as_type, "dtype"_a,
           "The same as astype.\n\n>>> import varve as vv\n>>> vv.tensor([1]).to(vv.f16).dtype\nvarve.f16");

  nb::class_<Variable>(m, "Variable",
                       R"(A named slot that holds a tensor between steps: a parameter, a statistic, a counter.

>>> import varve as vv
>>> count = vv.Variable(0.0, name="count", trainable=False)
>>> count.assign(count + 1)
>>> count.value().item()
1.0)")
      .def(
          "__init__",
          [](Variable* self, nb::handle value, const std::string& name, bool trainable) {
            new (self) Variable(name, to_tensor(value), trainable);
          },
          "value"_a, "name"_a = "variable", "trainable"_a = true)
      .def_prop_ro(
          "name", &Variable::name,
          "What files and summaries call it.\n\n>>> import varve as vv\n>>> vv.Variable(1.0, name=\"w\").name\n'w'")
      .def_prop_rw("trainable", &Variable::trainable, &Variable::set_trainable,
                   "Whether optimisers change it.\n\n>>> import varve as vv\n>>> vv.Variable(1.0).trainable\nTrue")
      .def_prop_ro(
          "shape", [](const Variable& v) { return shape_tuple(v.shape()); },
          "Sizes of the axes.\n\n>>> import varve as vv\n>>> vv.Variable([1.0, 2.0]).shape\n(2,)")
      .def_prop_ro(
          "dtype", [](const Variable& v) { return v.type().dtype; },
          "The element type.\n\n>>> import varve as vv\n>>> vv.Variable(1.0).dtype\nvarve.f32")
      .def_prop_ro(
          "ndim", [](const Variable& v) { return v.shape().rank(); },
          "The number of axes.\n\n>>> import varve as vv\n>>> vv.Variable([1.0]).ndim\n1")
      .def_prop_ro(
          "size", [](const Variable& v) { return v.shape().numel(); },
          "The number of elements.\n\n>>> import varve as vv\n>>> vv.Variable([1.0, 2.0]).size\n2")
      .def(
          "value", [](const Variable& v) { return unlocked([&] { return v.value(); }); },
          "What it holds: a tensor.\n\n>>> import varve as vv\n>>> vv.Variable([1.0]).value()\ntensor([1.], f32)")
      .def(
          "assign",
          [](Variable& v, nb::handle value) {
            const Tensor tensor = to_tensor(value).to(v.type().dtype);
            unlocked([&] { v.assign(tensor); });
          },
          "value"_a,
          "Gives it a new value of the same shape; in a compiled function this is part of the program.\n\n"
          ">>> import varve as vv\n>>> v = vv.Variable([1.0])\n>>> v.assign([2.0])\n>>> v.tolist()\n[2.0]")
      .def("accept", &Variable::accept,
           "After a step that failed while it was writing: goes on with the value that it left.\n\n"
           ">>> import varve as vv\n>>> vv.Variable([1.0]).accept()")
      .def("same", &Variable::same, "other"_a,
           "Whether both are one slot.\n\n>>> import varve as vv\n>>> v = vv.Variable(1.0)\n>>> v.same(v)\nTrue");

  m.def(
      "tensor",
      [](nb::handle value, nb::object dtype) {
        const Tensor t = to_tensor(value, !dtype.is_none());
        return dtype.is_none() ? t : t.to(to_dtype(dtype));
      },
      "value"_a.none(), "dtype"_a = nb::none(),
      "A tensor of a number, of nested lists, or of an array of any library: a copy. Python's floats are f32, "
      "integers\n"
      "i64; arrays keep their type.\n\n"
      ">>> import varve as vv\n>>> vv.tensor([[1.0, 2.0], [3.0, 4.0]])\ntensor([[1. 2.]\n [3. 4.]], f32)");
  m.def("_share", &share_array, "array"_a.none(), "must_share"_a = false);
  m.def(
      "_dtype", [](nb::handle value) { return to_dtype(value); }, "value"_a);
  m.def("_from_raw", &from_raw, "dtype"_a, "shape"_a, "bytes"_a);
  m.def("device", &device, "Where programs run.\n\n>>> import varve as vv\n>>> vv.device()\n'cpu'");
  m.def(
      "set_device", [](const std::string& name) { unlocked([&] { set_device(name); }); }, "name"_a,
      "Chooses where programs run: \"cpu\", \"cuda\", \"cuda:1\". Raises when that cannot be had, and says why.\n\n"
      ">>> import varve as vv\n>>> vv.set_device(\"cpu\")");
  m.def(
      "synchronize", [](const std::string& name) { unlocked([&] { synchronize(name); }); }, "device"_a = "",
      "Waits until everything that was started on a device has ended: for clocks.\n\n"
      ">>> import varve as vv\n>>> vv.synchronize()");
  m.def(
      "threads", [] { return threads(); },
      "How many threads the processor computes on.\n\n>>> import varve as vv\n>>> vv.threads() >= 1\nTrue");
  m.def(
      "set_threads", [](int n) { set_threads(n); }, "count"_a,
      "Sets how many threads the processor computes on.\n\n>>> import varve as vv\n>>> vv.set_threads(vv.threads())");
  m.def(
      "deterministic", [] { return deterministic(); },
      "Whether results are the same bits with any number of threads.\n\n"
      ">>> import varve as vv\n>>> vv.deterministic() in (True, False)\nTrue");
  m.def(
      "set_deterministic", [](bool on) { set_deterministic(on); }, "on"_a = true,
      "Asks for the same bits with any number of threads.\n\n"
      ">>> import varve as vv\n>>> vv.set_deterministic(vv.deterministic())");
  m.def(
      "tracing", [] { return tracing(); },
      "Whether this thread is recording a program: values cannot be read meanwhile.\n\n"
      ">>> import varve as vv\n>>> vv.tracing()\nFalse");
}

}  // namespace varve::python
