// The families of operators, a file each. Examples in their docs are run by the tests, with `import varve as vv`.
#pragma once

#include "arguments.h"

namespace varve::python {

nb::object call_elementwise(const OpDef& op, const std::vector<nb::handle>& given);  // of tensors, or of symbols
void bind_elementwise(nb::module_& m);
void bind_reductions(nb::module_& m);
void bind_creation(nb::module_& m);
void bind_shapes(nb::module_& m);
void bind_products(nb::module_& m);
void bind_linalg(nb::module_& m);  // of varve.linalg
void bind_fft(nb::module_& m);     // of varve.fft
void bind_sequence_losses(nb::module_& m);
void bind_indexing(nb::module_& m);
void bind_vision(nb::module_& m);
void bind_convolutions(nb::module_& m);
void bind_norms(nb::module_& m);
void bind_losses(nb::module_& m);
void bind_recurrence(nb::module_& m);
void bind_control(nb::module_& m);
void bind_updates(nb::module_& m);

}  // namespace varve::python
