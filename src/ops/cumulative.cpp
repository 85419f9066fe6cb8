// Products and extremes of everything up to an element. In about log2(N) steps, each joining what reaches twice as far:
// gradients through them are right whatever is zero, and every backend has what they take.
#include "base/text.h"
#include "ops/families.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

std::int64_t checked_axis(const Call& call) {
  return normalize_axis(call.attrs.integer("axis"), call.in[0].shape.rank(), call.op.name.c_str());
}

std::vector<TensorType> cumprod_shape(const Call& call) {
  checked_axis(call);
  const TensorType& x = call.in[0];
  return {{is_floating(x.dtype) ? x.dtype : i64, x.shape}};
}

std::vector<TensorType> cumulative_extreme_shape(const Call& call) {
  checked_axis(call);
  return {call.in[0], {i64, call.in[0].shape}};
}

Cost cumulative_cost(const Call& call, const std::vector<TensorType>& out) {
  Cost cost = moves_only(call, out);
  cost.flops = static_cast<double>(call.in[0].shape.numel());
  return cost;
}

// x without its last `count` elements along an axis, behind `before`.
Tensor shifted(const Tensor& x, const Tensor& before, std::int64_t count, std::int64_t axis) {
  std::vector<Range> ranges(static_cast<std::size_t>(axis) + 1);
  ranges.back() = {0, x.dim(static_cast<int>(axis)) - count};
  return concat({before, slice(x, ranges)}, axis);
}

std::vector<Tensor> cumprod_by_doubling(const std::vector<Tensor>& in, const Attrs& attrs) {
  const std::int64_t axis = attrs.integer("axis"), n = in[0].dim(static_cast<int>(axis));
  Tensor y = is_floating(in[0].dtype()) ? widened(in[0]) : in[0].to(i64);
  Shape some = y.shape();
  for (std::int64_t reach = 1; reach < n; reach *= 2) {
    some[static_cast<int>(axis)] = reach;
    y = y * shifted(y, ones(some, y.dtype()), reach, axis);
  }
  return {is_floating(in[0].dtype()) ? y.to(in[0].dtype()) : y};
}

// Joined with itself an extreme stays what it is, so the first elements stand in for those that have none before.
std::vector<Tensor> extreme_by_doubling(const std::vector<Tensor>& in, std::int64_t axis, bool largest) {
  Tensor y = in[0];
  const std::int64_t n = y.dim(static_cast<int>(axis));
  Shape along;
  for (int a = 0; a < y.rank(); ++a) along.push_back(a == axis ? n : 1);
  Tensor at = broadcast_to(reshape(arange(n), along), y.shape());
  std::vector<Range> first(static_cast<std::size_t>(axis) + 1);
  for (std::int64_t reach = 1; reach < n; reach *= 2) {
    first.back() = {0, reach};
    const Tensor earlier = shifted(y, slice(y, first), reach, axis);
    const Tensor earlier_at = shifted(at, slice(at, first), reach, axis);
    Tensor further = largest ? earlier > y : earlier < y;
    if (is_floating(y.dtype())) further = further || (is_nan(earlier) && !is_nan(y));
    y = where(further, earlier, y);
    at = where(further, earlier_at, at);
  }
  return {y, at};
}

// y_i = x at the position of the extreme.
std::vector<Tensor> cumulative_extreme_vjp(const Vjp& v) {
  if (!v.dys[0].defined()) return {{}};
  const Tensor& x = v.in[0];
  return {put_along_axis_add(zeros(x.shape(), x.dtype()), v.out[1], v.dys[0], v.attrs.integer("axis"))};
}

const OpDef cumprod_op = define({.name = "cumprod",
                                 .doc = "Running products along an axis; integers and bool are multiplied in i64.",
                                 .family = "cumulative",
                                 .shape = cumprod_shape,
                                 .decompose = cumprod_by_doubling,
                                 .cost = cumulative_cost});

OpDef running_extreme(const char* name, const char* doc, bool largest) {
  return define(
      {.name = name,
       .doc = doc,
       .family = "cumulative",
       .shape = cumulative_extreme_shape,
       .gradient = cumulative_extreme_vjp,
       .decompose = [largest](const std::vector<Tensor>& in,
                              const Attrs& attrs) { return extreme_by_doubling(in, attrs.integer("axis"), largest); },
       .cost = cumulative_cost,
       .smooth = false});
}
const OpDef cummax_op = running_extreme(
    "cummax", "Largest element so far along an axis and where it is, the last of equals; NaN stays.", true);
const OpDef cummin_op = running_extreme(
    "cummin", "Smallest element so far along an axis and where it is, the last of equals; NaN stays.", false);

std::vector<Tensor> running(const OpDef& op, const Tensor& x, std::int64_t axis) {
  return record(op.record(), {x}, {{"axis", normalize_axis(axis, x.rank(), op.name().c_str())}});
}

}  // namespace

std::vector<const OpRecord*> cumulative_ops() {
  return {&cumprod_op.record(), &cummax_op.record(), &cummin_op.record()};
}

Tensor cumprod(const Tensor& x, std::int64_t axis) { return running(cumprod_op, x, axis)[0]; }
std::pair<Tensor, Tensor> cummax(const Tensor& x, std::int64_t axis) {
  const std::vector<Tensor> both = running(cummax_op, x, axis);
  return {both[0], both[1]};
}
std::pair<Tensor, Tensor> cummin(const Tensor& x, std::int64_t axis) {
  const std::vector<Tensor> both = running(cummin_op, x, axis);
  return {both[0], both[1]};
}

}  // namespace varve
