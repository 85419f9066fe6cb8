// Formulas, interpreted for each element.
#pragma once

#include "backends/reference/kernels.h"

namespace varve::reference {

// The kernel of an elementwise node. Inputs broadcast to the output.
RefFn elementwise_kernel(const ir::Node& node);

// Integers as the machine adds them: wrapping round, division truncating, anything divided by 0 is 0.
std::int64_t apply_int(expr::Prim prim, std::int64_t a, std::int64_t b, std::int64_t c);

}  // namespace varve::reference
