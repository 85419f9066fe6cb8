// The gradient of softmax, for records of which it is a part.
#pragma once

#include <cstdint>

#include "varve/tensor.h"

namespace varve {

// y · (dy - Σ dy·y) along an axis; y and dy of one type.
Tensor softmax_grad(const Tensor& y, const Tensor& dy, std::int64_t axis = -1);

}  // namespace varve
