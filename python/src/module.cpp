#include "bindings.h"

#include <varve/memory.h>
#include <varve/version.h>

namespace varve::python {
namespace {

// What `import varve` offers of this module: the names that are not private. The rest is for varve.nn, varve.data …
void export_names(nb::module_& m) {
  nb::list names;
  for (const nb::handle name : nb::steal<nb::list>(PyObject_Dir(m.ptr())))
    if (!nb::cast<std::string>(name).starts_with("_")) names.append(name);
  m.attr("__all__") = names;
}

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // module-level tensors of users outlive the interpreter's clean-up
  m.attr("__version__") = version();
  nb::exception<Error>(m, "Error", PyExc_ValueError).doc() =
      "A value that the library refuses: what was expected, what came, and what to do. A ValueError.\n\n"
      ">>> try:\n...     vv.ones(2) + vv.ones(3)\n... except vv.Error as error:\n...     print(\"add\" in "
      "str(error))\nTrue";
  nb::exception<OutOfMemory>(m, "OutOfMemory", PyExc_MemoryError).doc() =
      "Memory that is not there, of the processor or of a device. A MemoryError; a smaller batch can go on.\n\n"
      ">>> issubclass(vv.OutOfMemory, MemoryError)\nTrue";
  // What a Python function of the user's returns, say, where no caller names it better.
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_cast&) {
      PyErr_SetString(PyExc_TypeError,
                      "a value is of another kind than expected here, or an integer does not fit 64 bits");
    }
  });
  bind_lock(m);
  bind_tensor(m);
  bind_dlpack(m);
  bind_ops(m);
  bind_own(m);
  bind_functions(m);
  bind_transforms(m);
  bind_nests(m);
  bind_io(m);
  export_names(m);
  bind_nn(m);
  bind_data_files(m);
  bind_data(m);
  bind_zoo(m);
  bind_distributed(m);  // optimisers and fit take its options
  bind_optim(m);
  bind_train(m);
}

}  // namespace
}  // namespace varve::python
