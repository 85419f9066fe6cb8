#include "arguments.h"

namespace varve::python {
namespace {

// What came, in one short line: 'a' (str).
std::string shown(nb::handle value) {
  if (value.is_none()) return "None";
  std::string text;
  try {
    text = nb::cast<std::string>(nb::repr(value));
  } catch (...) {  // a repr that fails, or that is no text
    text = "a value";
  }
  constexpr std::size_t kLongest = 60;
  if (text.size() > kLongest) {
    std::size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
    text = text.substr(0, end) + "…";
  }
  return text + " (" + nb::cast<std::string>(nb::str(value.type().attr("__name__"))) + ")";
}

// An error that Python's conversion raised: a TypeError becomes ours, anything else is the user's own and goes on.
[[noreturn]] void refuse(const Where& where, const char* expected, nb::handle value) {
  nb::python_error raised;
  if (!raised.matches(PyExc_TypeError)) throw raised;
  wrong_kind(where, expected, value);
}

bool is_text(nb::handle value) { return PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr()); }

bool is_sequence(nb::handle value) {
  return PySequence_Check(value.ptr()) && !is_text(value) && !PyDict_Check(value.ptr());
}

}  // namespace

void wrong_kind(const Where& where, const char* expected, nb::handle got) {
  throw nb::type_error(
      (where.function + ": " + where.argument + " must be " + expected + ", got " + shown(got)).c_str());
}

std::int64_t to_integer(nb::handle value, const Where& where) {
  if (!PyIndex_Check(value.ptr())) wrong_kind(where, "an integer", value);
  const nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
  if (!whole.is_valid()) refuse(where, "an integer", value);
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
  if (overflow) throw nb::value_error((where.function + ": " + where.argument + " does not fit 64 bits").c_str());
  return number;
}

double to_number(nb::handle value, const Where& where) {
  if (is_text(value)) wrong_kind(where, "a number", value);
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
      PyErr_Clear();
      throw nb::value_error((where.function + ": " + where.argument + " is too large").c_str());
    }
    refuse(where, "a number", value);
  }
  return number;
}

bool to_flag(nb::handle value, const Where& where) {
  if (value.ptr() == Py_True) return true;
  if (value.ptr() == Py_False) return false;
  const std::string type = nb::cast<std::string>(nb::str(value.type().attr("__name__")));
  if (type != "bool" && type != "bool_") wrong_kind(where, "True or False", value);  // NumPy's
  return PyObject_IsTrue(value.ptr()) == 1;
}

std::string to_text(nb::handle value, const Where& where) {
  std::string text;
  if (!PyUnicode_Check(value.ptr()) || !nb::try_cast<std::string>(value, text)) {
    PyErr_Clear();
    wrong_kind(where, "a string", value);
  }
  return text;
}

std::string to_path(nb::handle value, const Where& where) {
  const nb::object path = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.is_valid()) refuse(where, "a path", value);
  return to_text(path, where);
}

std::vector<std::int64_t> to_integers(nb::handle value, const Where& where) {
  constexpr const char* kExpected = "an integer or a sequence of integers";
  std::vector<std::int64_t> all;
  if (PyIndex_Check(value.ptr()) && !PySequence_Check(value.ptr())) return {to_integer(value, where)};
  if (!is_sequence(value)) wrong_kind(where, kExpected, value);
  const nb::object items = nb::steal(PySequence_Fast(value.ptr(), ""));
  if (!items.is_valid()) {  // NumPy's and our own scalars are sequences that cannot be iterated over
    nb::python_error raised;
    if (!PyIndex_Check(value.ptr())) wrong_kind(where, kExpected, value);
    return {to_integer(value, where)};
  }
  for (const nb::handle item : items) {
    if (!PyIndex_Check(item.ptr())) wrong_kind(where, kExpected, value);
    all.push_back(to_integer(item, where));
  }
  return all;
}

Tensor to_tensor(nb::handle value, const Where& where) {
  Tensor tensor;
  if (nb::try_cast<Tensor>(value, tensor)) return tensor;
  if (value.is_none() && where.optional) return {};
  if (value.is_none() || is_text(value) || PyType_Check(value.ptr()) || PyDict_Check(value.ptr()) ||
      PySet_Check(value.ptr()))
    wrong_kind(where, "a tensor, an array or a number", value);
  if (PyLong_Check(value.ptr()) && !PyBool_Check(value.ptr())) return varve::tensor(to_integer(value, where));
  return to_tensor(value);
}

std::vector<Tensor> to_tensors(nb::handle values, const Where& where) {
  if (!is_sequence(values)) wrong_kind(where, "a sequence of tensors", values);
  std::vector<Tensor> tensors;
  const nb::object items = nb::steal(PySequence_Fast(values.ptr(), ""));
  if (!items.is_valid()) refuse(where, "a sequence of tensors", values);
  for (const nb::handle item : items) tensors.push_back(to_tensor(item, where));
  return tensors;
}

std::vector<double> to_numbers(nb::handle value, const Where& where) {
  if (!is_sequence(value)) wrong_kind(where, "a sequence of numbers", value);
  std::vector<double> numbers;
  const nb::object items = nb::steal(PySequence_Fast(value.ptr(), ""));
  if (!items.is_valid()) refuse(where, "a sequence of numbers", value);
  for (const nb::handle item : items) numbers.push_back(to_number(item, where));
  return numbers;
}

Operand to_operand(nb::handle value, const Where& where) {
  Tensor tensor;
  if (nb::try_cast<Tensor>(value, tensor)) return Operand(tensor);
  if (PyFloat_Check(value.ptr())) return Operand(PyFloat_AsDouble(value.ptr()));
  if (PyLong_Check(value.ptr())) return to_operand(value);  // bools too; one too large for 64 bits is a float
  return Operand(to_tensor(value, where));
}

DType to_dtype(nb::handle value, const Where& where) {
  constexpr const char* kExpected = "an element type such as varve.f32, \"f32\" or numpy.float32";
  if (nb::isinstance<DType>(value)) return nb::cast<DType>(value);
  if (value.is_none() || PyLong_Check(value.ptr())) wrong_kind(where, kExpected, value);
  try {
    return to_dtype(value);
  } catch (nb::python_error& raised) {
    if (!raised.matches(PyExc_TypeError)) throw;
  }
  wrong_kind(where, kExpected, value);
}

Reduction to_reduction(nb::handle value, const Where& where) {
  const std::string name = to_text(value, where);
  if (name == "mean") return Reduction::mean;
  if (name == "sum") return Reduction::sum;
  if (name == "none") return Reduction::none;
  throw Error(where.function + ": reduction must be 'mean', 'sum' or 'none', got '" + name + "'.");
}

namespace {

// One of several words, each with what it stands for.
template <class T>
T to_choice(nb::handle value, const Where& where, std::initializer_list<std::pair<const char*, T>> choices) {
  const std::string name = to_text(value, where);
  std::string known;
  for (const auto& [word, meaning] : choices) {
    if (name == word) return meaning;
    known += (known.empty() ? "'" : ", '") + std::string(word) + "'";
  }
  throw Error(where.function + ": " + where.argument + " must be one of " + known + ", got '" + name + "'.");
}

}  // namespace

ScatterMode to_scatter_mode(nb::handle value, const Where& where) {
  return to_choice<ScatterMode>(value, where,
                                {{"assign", ScatterMode::assign},
                                 {"sum", ScatterMode::sum},
                                 {"max", ScatterMode::max},
                                 {"min", ScatterMode::min},
                                 {"product", ScatterMode::product}});
}

Interpolation to_interpolation(nb::handle value, const Where& where) {
  return to_choice<Interpolation>(
      value, where,
      {{"nearest", Interpolation::nearest}, {"linear", Interpolation::linear}, {"cubic", Interpolation::cubic}});
}
Alignment to_alignment(nb::handle value, const Where& where) {
  return to_choice<Alignment>(value, where,
                              {{"half_pixel", Alignment::half_pixel},
                               {"align_corners", Alignment::align_corners},
                               {"asymmetric", Alignment::asymmetric}});
}
Rounding to_rounding(nb::handle value, const Where& where) {
  return to_choice<Rounding>(value, where,
                             {{"half_down", Rounding::half_down},
                              {"half_up", Rounding::half_up},
                              {"down", Rounding::down},
                              {"up", Rounding::up}});
}
GridPadding to_grid_padding(nb::handle value, const Where& where) {
  return to_choice<GridPadding>(
      value, where,
      {{"zeros", GridPadding::zeros}, {"border", GridPadding::border}, {"reflection", GridPadding::reflection}});
}

std::vector<Padding> to_paddings(nb::handle value, const Where& where) {
  constexpr const char* kExpected = "a number, a number for each axis, or (before, after) for each axis";
  if (PyIndex_Check(value.ptr()) && !PySequence_Check(value.ptr())) return {Padding(to_integer(value, where))};
  if (!is_sequence(value)) wrong_kind(where, kExpected, value);
  std::vector<Padding> all;
  const nb::object items = nb::steal(PySequence_Fast(value.ptr(), ""));
  if (!items.is_valid()) refuse(where, kExpected, value);
  for (const nb::handle item : items) {
    const std::vector<std::int64_t> sides = to_integers(item, where);
    if (sides.empty() || sides.size() > 2) wrong_kind(where, kExpected, value);
    all.emplace_back(sides.front(), sides.back());
  }
  return all;
}

}  // namespace varve::python
