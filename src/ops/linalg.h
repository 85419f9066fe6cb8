// What the files of the linalg family share.
#pragma once

#include "base/text.h"
#include "ops/shared.h"
#include "varve/linalg.h"
#include "varve/ops.h"

namespace varve::linalg {

// Throws unless the input is a matrix, or a batch of them, of f32 or f64; square if asked.
void check_matrix(const Call& call, std::size_t input, bool square);
Shape batch_of(const Shape& matrices);
std::int64_t rows_of(const Shape& matrices);
std::int64_t columns_of(const Shape& matrices);
Shape with_sizes(const Shape& matrices, std::initializer_list<std::int64_t> last);  // in place of the last two

Tensor as_real(const Tensor& x);        // integers as f32
Tensor symmetric(const Tensor& a);      // (a + aᵀ) / 2
Tensor diagonal(const Tensor& square);  // [.., N, N] -> [.., N]
Tensor as_row(const Tensor& x);         // [.., N] -> [.., 1, N]
Tensor as_column(const Tensor& x);      // [.., N] -> [.., N, 1]
Tensor safe_inverse(const Tensor& x);   // 1 / x, and 0 where x is 0

// FLOPs for each matrix of a batch, each tensor moved once.
Cost matrix_cost(const Call& call, const std::vector<TensorType>& out, double flops_of_one);

std::vector<const OpRecord*> solving_ops();
std::vector<const OpRecord*> factoring_ops();

}  // namespace varve::linalg
