// Reductions: records for what a backend computes in one pass, compositions for the rest.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

// ---- axes and shapes

Ints normalized_axes(const std::optional<Axes>& axes, int rank, const char* op) {
  Ints result;
  if (!axes) {
    result.resize(static_cast<std::size_t>(rank));
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  for (const std::int64_t axis : *axes) result.push_back(normalize_axis(axis, rank, op));
  std::sort(result.begin(), result.end());
  const auto twice = std::adjacent_find(result.begin(), result.end());
  if (twice != result.end()) throw Error(cat(op, ": axis ", *twice, " is given twice."));
  return result;
}

bool contains(const Ints& axes, int axis) { return std::binary_search(axes.begin(), axes.end(), axis); }

Shape reduced_shape(const Shape& x, const Ints& axes, bool keep) {
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!contains(axes, axis))
      shape.push_back(x[axis]);
    else if (keep)
      shape.push_back(1);
  }
  return shape;
}

// How many elements fold into one.
std::int64_t reduced_count(const Shape& x, const Ints& axes) {
  Shape reduced;
  for (const std::int64_t axis : axes) reduced.push_back(x[static_cast<int>(axis)]);
  return reduced.numel();
}

const Ints& checked_axes(const Call& call) {
  const Ints& axes = call.attrs.ints("axes");
  const int rank = call.in[0].shape.rank();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank || (i > 0 && axes[i] <= axes[i - 1]))
      throw Error(cat(call.op.name, ": axes ", Shape(axes), " of ", call.in[0].shape, " are not sorted and in range."));
  }
  return axes;
}

// Sums of integers and truth values are counted in 64 bits.
DType accumulated(DType dtype) { return is_floating(dtype) ? dtype : i64; }

std::vector<TensorType> sum_shape(const Call& call) {
  return {
      {accumulated(call.in[0].dtype), reduced_shape(call.in[0].shape, checked_axes(call), call.attrs.flag("keep"))}};
}

std::vector<TensorType> truth_shape(const Call& call) {
  return {{boolean, reduced_shape(call.in[0].shape, checked_axes(call), call.attrs.flag("keep"))}};
}

std::vector<TensorType> extreme_shape(const Call& call) {
  const Shape& x = call.in[0].shape;
  const Ints& axes = checked_axes(call);
  for (const std::int64_t axis : axes) {
    if (x[static_cast<int>(axis)] == 0)
      throw Error(cat(call.op.name, ": axis ", axis, " of ", x, " is empty, and nothing has no ", call.op.name, "."));
  }
  return {{call.in[0].dtype, reduced_shape(x, axes, call.attrs.flag("keep"))}};
}

std::vector<TensorType> arg_shape(const Call& call) {
  const Shape& x = call.in[0].shape;
  const int axis = normalize_axis(call.attrs.integer("axis"), x.rank(), call.op.name.c_str());
  if (x[axis] == 0) throw Error(cat(call.op.name, ": axis ", axis, " of ", x, " is empty."));
  return {{i64, reduced_shape(x, {axis}, call.attrs.flag("keep"))}};
}

std::vector<TensorType> cumsum_shape(const Call& call) {
  normalize_axis(call.attrs.integer("axis"), call.in[0].shape.rank(), "cumsum");
  return {{accumulated(call.in[0].dtype), call.in[0].shape}};
}

std::vector<TensorType> sort_shape(const Call& call) {
  normalize_axis(call.attrs.integer("axis"), call.in[0].shape.rank(), "sort");
  call.attrs.flag("descending");
  return {call.in[0], {i64, call.in[0].shape}};
}

Cost input_cost(const Call& call, const std::vector<TensorType>& out) {
  Cost cost{static_cast<double>(call.in[0].shape.numel()), static_cast<double>(call.in[0].bytes())};
  for (const TensorType& type : out) cost.bytes += static_cast<double>(type.bytes());
  return cost;
}

Cost sort_cost(const Call& call, const std::vector<TensorType>& out) {
  Cost cost = input_cost(call, out);
  const auto n = static_cast<double>(call.in[0].shape[static_cast<int>(call.attrs.integer("axis"))]);
  cost.flops *= std::log2(std::max(n, 2.0));
  return cost;
}

// ---- gradients

// With the reduced axes back, of size 1: it broadcasts against the input.
Tensor kept(const Tensor& reduced, const Vjp& v) {
  return reshape(reduced, reduced_shape(v.in[0].shape(), v.attrs.ints("axes"), true));
}

std::vector<Tensor> sum_vjp(const Vjp& v) { return {broadcast_to(kept(v.dy, v), v.in[0].shape())}; }

// Equal extremes share dy evenly.
std::vector<Tensor> extreme_vjp(const Vjp& v) {
  const Tensor& x = v.in[0];
  const Tensor hit = equal(x, kept(v.out[0], v));
  const Tensor ties = sum(hit.to(x.dtype()), {.axes = v.attrs.ints("axes"), .keep = true});
  return {where(hit, kept(v.dy, v) / ties, 0)};
}

// y_i = x_0 + … + x_i, so dx_i = dy_i + … + dy_n.
std::vector<Tensor> cumsum_vjp(const Vjp& v) {
  const Axes axis = {v.attrs.integer("axis")};
  return {flip(cumsum(flip(v.dy, axis), axis[0]), axis)};
}

std::vector<Tensor> sort_vjp(const Vjp& v) {
  const Tensor& x = v.in[0];
  return {put_along_axis_add(zeros(x.shape(), x.dtype()), v.out[1], v.dy, v.attrs.integer("axis"))};
}

// Products of halves: differentiated, each factor gets the product of the others, whichever of them are zero.
std::vector<Tensor> prod_by_halves(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Shape& shape = in[0].shape();
  const Ints& axes = attrs.ints("axes");
  const Shape result = reduced_shape(shape, axes, attrs.flag("keep"));
  const DType dtype = accumulated(in[0].dtype());
  std::int64_t n = reduced_count(shape, axes);
  if (n == 0) return {ones(result, dtype)};

  Axes order = axes;
  Shape rows{n};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (contains(axes, axis)) continue;
    order.push_back(axis);
    rows.push_back(shape[axis]);
  }
  Tensor factors = reshape(transpose(in[0].to(dtype), order), rows);
  while (n > 1) {
    const std::int64_t half = n / 2;
    const Tensor pairs = slice(factors, {{0, half}}) * slice(factors, {{half, 2 * half}});
    factors = n % 2 ? concat({pairs, slice(factors, {{n - 1, n}})}) : pairs;
    n -= half;
  }
  return {reshape(factors, result)};
}

// The axes of all calls lie behind the batch.
std::optional<std::vector<Tensor>> batch_over_axes(const Batching& call) {
  return record(call.op, call.in, with_axis_behind(call.attrs, "axes"));
}

// ---- records

const OpDef sum_op = define({.name = "sum",
                             .doc = "Sum over axes; integers and bool are counted in i64.",
                             .family = "reduce",
                             .shape = sum_shape,
                             .gradient = sum_vjp,
                             .cost = input_cost,
                             .batching = batch_over_axes});
const OpDef prod_op = define({.name = "prod",
                              .doc = "Product over axes; integers and bool are multiplied in i64.",
                              .family = "reduce",
                              .shape = sum_shape,
                              .decompose = prod_by_halves,
                              .cost = input_cost,
                              .batching = batch_over_axes});
const OpDef max_op = define({.name = "max",
                             .doc = "Largest element over axes; NaN if there is one.",
                             .family = "reduce",
                             .shape = extreme_shape,
                             .gradient = extreme_vjp,
                             .cost = input_cost,
                             .batching = batch_over_axes,
                             .smooth = false});
const OpDef min_op = define({.name = "min",
                             .doc = "Smallest element over axes; NaN if there is one.",
                             .family = "reduce",
                             .shape = extreme_shape,
                             .gradient = extreme_vjp,
                             .cost = input_cost,
                             .batching = batch_over_axes,
                             .smooth = false});
const OpDef any_op = define({.name = "any",
                             .doc = "Whether some element over axes is not zero.",
                             .family = "reduce",
                             .shape = truth_shape,
                             .cost = input_cost,
                             .batching = batch_over_axes,
                             .differentiable = false});
const OpDef all_op = define({.name = "all",
                             .doc = "Whether no element over axes is zero.",
                             .family = "reduce",
                             .shape = truth_shape,
                             .cost = input_cost,
                             .batching = batch_over_axes,
                             .differentiable = false});
const OpDef argmax_op =
    define({.name = "argmax",
            .doc = "Index of the largest element along an axis, the first of equals; NaN is largest.",
            .family = "reduce",
            .shape = arg_shape,
            .cost = input_cost,
            .batching = batch_along_axis,
            .differentiable = false});
const OpDef argmin_op =
    define({.name = "argmin",
            .doc = "Index of the smallest element along an axis, the first of equals; NaN is smallest.",
            .family = "reduce",
            .shape = arg_shape,
            .cost = input_cost,
            .batching = batch_along_axis,
            .differentiable = false});
const OpDef cumsum_op = define({.name = "cumsum",
                                .doc = "Running sums along an axis; integers and bool are counted in i64.",
                                .family = "reduce",
                                .shape = cumsum_shape,
                                .gradient = cumsum_vjp,
                                .cost = input_cost,
                                .batching = batch_along_axis});
const OpDef sort_op = define({.name = "sort",
                              .doc = "Elements along an axis in order, and where each came from; stable, NaN last.",
                              .family = "reduce",
                              .shape = sort_shape,
                              .gradient = sort_vjp,
                              .cost = sort_cost,
                              .batching = batch_along_axis,
                              .smooth = false});

Tensor reduce(const OpDef& op, const Tensor& x, const ReduceOptions& options) {
  const Ints axes = normalized_axes(options.axes, x.rank(), op.name().c_str());
  return record(op.record(), {x}, {{"axes", axes}, {"keep", options.keep}})[0];
}

Tensor arg_reduce(const OpDef& op, const Tensor& x, std::int64_t axis, bool keep) {
  const int normal = normalize_axis(axis, x.rank(), op.name().c_str());
  return record(op.record(), {x}, {{"axis", normal}, {"keep", keep}})[0];
}

std::vector<Tensor> sorted(const char* caller, const Tensor& x, std::int64_t axis, bool descending) {
  return record(sort_op.record(), {x}, {{"axis", normalize_axis(axis, x.rank(), caller)}, {"descending", descending}});
}

// Where sums of squares or exponentials would round or overflow: 16-bit types and integers go to f32.
Tensor narrowed(const Tensor& result, const Tensor& x) {
  return is_floating(x.dtype()) ? result.to(x.dtype()) : result;
}

}  // namespace

std::vector<const OpRecord*> reduce_ops() {
  return {&sum_op.record(), &prod_op.record(),   &max_op.record(),    &min_op.record(),    &any_op.record(),
          &all_op.record(), &argmax_op.record(), &argmin_op.record(), &cumsum_op.record(), &sort_op.record()};
}

Tensor sum(const Tensor& x, const ReduceOptions& options) { return reduce(sum_op, x, options); }
Tensor prod(const Tensor& x, const ReduceOptions& options) { return reduce(prod_op, x, options); }
Tensor max(const Tensor& x, const ReduceOptions& options) { return reduce(max_op, x, options); }
Tensor min(const Tensor& x, const ReduceOptions& options) { return reduce(min_op, x, options); }
Tensor any(const Tensor& x, const ReduceOptions& options) { return reduce(any_op, x, options); }
Tensor all(const Tensor& x, const ReduceOptions& options) { return reduce(all_op, x, options); }

Tensor argmax(const Tensor& x, std::int64_t axis, bool keep) { return arg_reduce(argmax_op, x, axis, keep); }
Tensor argmin(const Tensor& x, std::int64_t axis, bool keep) { return arg_reduce(argmin_op, x, axis, keep); }

// Integers are summed exactly, then divided in f32. The mean of nothing is 0 / 0 = NaN.
Tensor mean(const Tensor& x, const ReduceOptions& options) {
  const Ints axes = normalized_axes(options.axes, x.rank(), "mean");
  const auto count = static_cast<double>(reduced_count(x.shape(), axes));
  const Tensor total = sum(is_floating(x.dtype()) ? widened(x) : x, {.axes = axes, .keep = options.keep});
  return narrowed(widened(total) / count, x);
}

// In two passes: sums of x² would cancel.
Tensor var(const Tensor& x, const VarOptions& options) {
  const Ints axes = normalized_axes(options.axes, x.rank(), "var");
  const std::int64_t count = reduced_count(x.shape(), axes);
  if (options.ddof < 0) throw Error(cat("var: ddof is ", options.ddof, "; expected 0 or more."));
  const Tensor wide = widened(x);
  const Tensor centred = wide - mean(wide, {.axes = axes, .keep = true});
  const Tensor squares = sum(centred * centred, {.axes = axes, .keep = options.keep});
  return narrowed(squares / static_cast<double>(std::max<std::int64_t>(count - options.ddof, 0)), x);
}

Tensor norm(const Tensor& x, const NormOptions& options) {
  const ReduceOptions over{.axes = options.axes, .keep = options.keep};
  const Tensor wide = widened(x);
  if (options.p == 1) return narrowed(sum(abs(wide), over), x);
  if (options.p == std::numeric_limits<double>::infinity()) return narrowed(max(abs(wide), over), x);
  if (options.p != 2) throw Error(cat("norm: p is ", options.p, "; expected 1, 2 or infinity."));
  // The root is kept away from 0, where its slope is infinite, so that the gradient at 0 is 0.
  const Tensor squares = sum(wide * wide, over);
  const Tensor zero = equal(squares, 0);
  return narrowed(where(zero, 0, sqrt(where(zero, 1, squares))), x);
}

Tensor logsumexp(const Tensor& x, const ReduceOptions& options) {
  const Ints axes = normalized_axes(options.axes, x.rank(), "logsumexp");
  const Tensor wide = widened(x);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (reduced_count(x.shape(), axes) == 0)
    return narrowed(full(reduced_shape(x.shape(), axes, options.keep), -infinity, wide.dtype()), x);
  const Tensor largest = stop_gradient(max(wide, {.axes = axes, .keep = true}));
  const Tensor shift = where(is_finite(largest), largest, 0);  // -inf - -inf would be NaN
  const Tensor total = sum(exp(wide - shift), {.axes = axes, .keep = true});
  // A row of -inf alone sums to 0: its value is -inf, its gradient 0.
  const Tensor nothing = equal(total, 0);
  const Tensor result = where(nothing, -infinity, log(where(nothing, 1, total)) + shift);
  return narrowed(reshape(result, reduced_shape(x.shape(), axes, options.keep)), x);
}

Tensor cumsum(const Tensor& x, std::int64_t axis) {
  return record(cumsum_op.record(), {x}, {{"axis", normalize_axis(axis, x.rank(), "cumsum")}})[0];
}

Tensor sort(const Tensor& x, std::int64_t axis, bool descending) { return sorted("sort", x, axis, descending)[0]; }
Tensor argsort(const Tensor& x, std::int64_t axis, bool descending) {
  return sorted("argsort", x, axis, descending)[1];
}

std::pair<Tensor, Tensor> top_k(const Tensor& x, std::int64_t k, std::int64_t axis) {
  const int along = normalize_axis(axis, x.rank(), "top_k");
  if (k < 0 || k > x.shape()[along])
    throw Error(
        cat("top_k: k is ", k, ", but axis ", along, " of ", x.shape(), " has ", x.shape()[along], " elements."));
  std::vector<Range> ranges(static_cast<std::size_t>(along) + 1);
  ranges.back() = {0, k};
  const Tensor indices = slice(sorted("top_k", x, along, true)[1], ranges);
  return {take_along_axis(x, indices, along), indices};  // taken, so that the gradient puts back k elements alone
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (shape.rank() > x.rank() || broadcast(x.shape(), shape, "sum_to") != x.shape())
    throw Error(cat("sum_to: ", shape, " does not broadcast to ", x.shape(), "."));
  const int extra = x.rank() - shape.rank();
  Axes axes;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis < extra || (shape[axis - extra] == 1 && x.shape()[axis] != 1)) axes.push_back(axis);
  return reshape(sum(x, {.axes = axes}).to(x.dtype()), shape);
}

}  // namespace varve
