// What fit and whole runs share.
#pragma once

#include "bindings.h"

namespace varve::python {

nb::dict values_of(const std::vector<std::pair<std::string, double>>& values);
train::Loss to_loss(nb::handle value);
train::ProgressSink to_sink(nb::handle value);
void bind_runs(nb::module_& m);

}  // namespace varve::python
