// Operators of the index family that only gradients and passes record, and what rules of operators that read or write
// at positions have in common: input 0 is read or changed along the attribute `axis`, input 1 holds the indices, input
// 2 the updates.
#pragma once

#include "varve/ops.h"

namespace varve {

// The gradient of a table [rows, D] that `embedding` read at these indices: rows of dy summed by index.
Tensor embedding_grad(const Tensor& dy, const Tensor& indices, std::int64_t rows);

namespace indexing {

void check_indices(const Call& call, const TensorType& indices);
int axis_of(const Call& call);
Shape gathered_shape(const Shape& x, const Shape& indices, int axis);  // x's axis replaced by the indices' shape
void check_updates(const Call& call, const Shape& expected);
void check_along_axis(const Call& call);  // indices of x's shape but for the axis
Positions positions(const Call& call, int input, std::int64_t size, int axis);
Positions along_axis(const Call& call);
Cost adding_cost(const Call& call, const std::vector<TensorType>& out);  // only what is touched moves
// Of slices along an axis; with indices of each example, through one long axis of all of them.
std::optional<std::vector<Tensor>> batch_scatter(const Batching& call);

}  // namespace indexing

}  // namespace varve
