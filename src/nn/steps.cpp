#include "nn/steps.h"

#include <limits>

#include "varve/ops.h"

namespace varve::nn {
namespace {

// [N, T] as [N, T, 1, ..] beside x
Tensor beside(const Tensor& steps, const Tensor& x) {
  Shape shape = steps.shape();
  while (shape.rank() < x.rank()) shape.push_back(1);
  return steps.reshape(shape);
}

// Rows of a matrix [A·B, C] taken from x [A, B, C]; rows: [D, E] to [D, E, C].
Tensor take_rows(const Tensor& x, const Tensor& rows) {
  return varve::embedding(x.reshape({x.dim(0) * x.dim(1), x.dim(2)}), rows);
}

// Where each step goes when valid ones move to the left, and padding behind them: a permutation of each row.
Tensor destinations(const Mask& mask) {
  const Tensor kept = mask.valid();
  const Tensor ahead = cumsum(kept.to(i64), 1), behind = cumsum(logical_not(kept).to(i64), 1);
  return where(kept, ahead - 1, behind - 1 + expand_dims(mask.lengths(), 1));
}

}  // namespace

Tensor zero_padding(const Tensor& x, const Mask& mask) {
  return mask.defined() ? where(beside(mask.valid(), x), x, zeros({}, x.dtype())) : x;
}

PackedSteps::PackedSteps(const Tensor& x, const Mask& mask) {
  if (!mask.defined() || mask.right_padded()) {
    x_ = transpose(x, {1, 0, 2});
    if (mask.defined()) lengths_ = mask.lengths();
    return;
  }
  const std::int64_t samples = x.dim(0), steps = x.dim(1);
  place_ = destinations(mask);
  lengths_ = mask.lengths();
  const Tensor t = broadcast_to(expand_dims(arange(steps), 0), {samples, steps});
  const Tensor from = put_along_axis_add(zeros({samples, steps}, i64), place_, t, 1);
  x_ = take_rows(x, transpose(from + expand_dims(arange(samples) * steps, 1)));
}

Tensor PackedSteps::unpacked(const Tensor& y) const {
  if (!place_.defined()) return transpose(y, {1, 0, 2});
  return take_rows(y, place_ * y.dim(1) + expand_dims(arange(y.dim(1)), 1));
}

Tensor positions(const Mask& mask) {
  if (mask.right_padded()) return broadcast_to(expand_dims(arange(mask.steps()), 0), {mask.samples(), mask.steps()});
  return maximum(cumsum(mask.valid().to(i64), 1) - 1, 0);
}

Tensor last_valid(const Tensor& x, const Mask& mask) {
  const std::int64_t samples = x.dim(0), steps = x.dim(1);
  const Tensor lengths = mask.lengths();
  const Tensor last = mask.right_padded()
                          ? maximum(lengths - 1, 0)
                          : max(where(mask.valid(), expand_dims(arange(steps), 0), zeros({}, i64)), {.axes = Axes{1}});
  const Tensor found = varve::embedding(x.reshape({samples * steps, x.dim(2)}), last + arange(samples) * steps);
  return where(expand_dims(lengths, 1) > 0, found, zeros({}, x.dtype()));
}

Tensor mean_valid(const Tensor& x, const Mask& mask) {
  const Tensor count = maximum(mask.lengths(), 1).to(x.dtype());
  return sum(zero_padding(x, mask), {.axes = Axes{1}}) / expand_dims(count, 1);
}

Tensor max_valid(const Tensor& x, const Mask& mask) {
  const Tensor lowest = full({}, -std::numeric_limits<double>::infinity(), x.dtype());
  const Tensor highest = max(where(beside(mask.valid(), x), x, lowest), {.axes = Axes{1}});
  return where(expand_dims(mask.lengths(), 1) > 0, highest, zeros({}, x.dtype()));
}

}  // namespace varve::nn
