#include "bindings.h"

#include <varve/memory.h>
#include <varve/version.h>

namespace varve::python {
namespace {

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // module-level tensors of users outlive the interpreter's clean-up
  m.attr("__version__") = version();
  nb::exception<Error>(m, "Error", PyExc_ValueError);
  nb::exception<OutOfMemory>(m, "OutOfMemory", PyExc_MemoryError);
  bind_tensor(m);
  bind_dlpack(m);
  bind_ops(m);
  bind_functions(m);
  bind_nn(m);
  bind_data(m);
  bind_train(m);
}

}  // namespace
}  // namespace varve::python
