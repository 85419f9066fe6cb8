// All operators, family by family.
#include "ops.h"

namespace varve::python {

void bind_ops(nb::module_& m) {
  bind_reductions(m);
  bind_creation(m);
  bind_shapes(m);
  bind_products(m);
  bind_linalg(m);
  bind_fft(m);
  bind_sequence_losses(m);
  bind_indexing(m);
  bind_vision(m);
  bind_convolutions(m);
  bind_norms(m);
  bind_losses(m);
  bind_recurrence(m);
  bind_control(m);
  bind_updates(m);
  bind_elementwise(m);  // those of the table that have no function of their own
  m.def("_operators", [] {
    nb::list names;
    for (const OpRecord* record : operators())
      names.append(nb::make_tuple(record->name, record->elementwise(), record->doc));
    return names;
  });
}

}  // namespace varve::python
