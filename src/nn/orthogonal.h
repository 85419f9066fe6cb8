#pragma once

#include "varve/tensor.h"

namespace varve::nn {

// The rows of a [R, C], R <= C, made orthogonal and of length 1, one after the other (Gram-Schmidt). Computed now.
Tensor orthonormal_rows(const Tensor& a);

}  // namespace varve::nn
