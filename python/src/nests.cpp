// Nests of arguments taken apart (varve/_nests.py says how): the common kinds here, since every compiled call does it.
#include "bindings.h"

namespace varve::python {
namespace {

// As _nests.py numbers them.
enum Kind : int { kSequence = 0, kDict = 2, kValue = 4 };

// Takes nests apart. Python is asked for what is not among the common kinds.
class Taker {
 public:
  Taker(nb::list leaves, nb::object other) : leaves_(std::move(leaves)), other_(std::move(other)) {}

  nb::object take(nb::handle nest) {
    PyTypeObject* const type = Py_TYPE(nest.ptr());
    if (type == tensor_type()) {
      leaves_.append(nest);
      return nb::none();
    }
    if (PyFloat_CheckExact(nest.ptr())) {
      leaves_.append(varve::tensor(static_cast<float>(PyFloat_AsDouble(nest.ptr()))));
      return nb::none();
    }
    if (PyTuple_CheckExact(nest.ptr()) || PyList_CheckExact(nest.ptr()))
      return nb::make_tuple(static_cast<int>(kSequence), nb::handle(type), parts(nest));
    if (PyDict_CheckExact(nest.ptr())) {
      nb::list names, values;
      for (const auto& [name, value] : nb::borrow<nb::dict>(nest)) {
        names.append(name);
        values.append(value);
      }
      return nb::make_tuple(static_cast<int>(kDict), nb::handle(type), nb::tuple(names), parts(values));
    }
    if (nest.is_none() || PyUnicode_CheckExact(nest.ptr()) || PyLong_CheckExact(nest.ptr()) || PyBool_Check(nest.ptr()))
      return nb::make_tuple(static_cast<int>(kValue), nb::handle(type), nest);
    return other_(nest, leaves_);
  }

 private:
  static PyTypeObject* tensor_type() {
    static auto* const type = reinterpret_cast<PyTypeObject*>(nb::type<Tensor>().ptr());
    return type;
  }

  nb::tuple parts(nb::handle nest) {
    if (Py_EnterRecursiveCall(" while a nest of arguments is taken apart")) throw nb::python_error();
    struct Left {
      ~Left() { Py_LeaveRecursiveCall(); }
    } const at_the_end;
    const Py_ssize_t count = PySequence_Size(nest.ptr());
    nb::object all = nb::steal(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      const nb::object item = nb::steal(PySequence_GetItem(nest.ptr(), i));
      if (!item.is_valid()) throw nb::python_error();  // somebody made it shorter meanwhile
      PyTuple_SetItem(all.ptr(), i, take(item).release().ptr());
    }
    return nb::borrow<nb::tuple>(all);
  }

  nb::list leaves_;
  nb::object other_;
};

}  // namespace

void bind_nests(nb::module_& m) {
  m.def(
      "_take",
      [](nb::handle nest, nb::list leaves, nb::object other) {
        return Taker(std::move(leaves), std::move(other)).take(nest);
      },
      "nest"_a.none(), "leaves"_a, "other"_a,
      nb::sig("def _take(nest: Any, leaves: list[Tensor], other: Callable[[Any, list[Tensor]], Any]) -> Any"));
}

}  // namespace varve::python
