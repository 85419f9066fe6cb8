// Operators of the index family that only gradients and passes record.
#pragma once

#include "varve/ops.h"

namespace varve {

// The gradient of a table [rows, D] that `embedding` read at these indices: rows of dy summed by index.
Tensor embedding_grad(const Tensor& dy, const Tensor& indices, std::int64_t rows);

}  // namespace varve
