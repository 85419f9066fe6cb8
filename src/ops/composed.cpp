// Functions of several families that are made of other operators.
#include <limits>

#include "base/text.h"
#include "ops/shared.h"
#include "varve/ops.h"

namespace varve {
namespace {

double largest_of(DType dtype) {
  if (dtype == f64) return std::numeric_limits<double>::max();
  if (dtype == f16) return 65504;
  return dtype == bf16 ? 0x1.FEp127 : static_cast<double>(std::numeric_limits<float>::max());
}

// 0 has no slope: the gradient where nothing is apart is 0.
Tensor safe_sqrt(const Tensor& squares) {
  const Tensor zero = squares <= 0;
  return where(zero, 0, sqrt(where(zero, 1, squares)));
}

void check_points(const Tensor& a, const Tensor& b) {
  if (a.rank() < 2 || b.rank() < 2 || a.dim(-1) != b.dim(-1))
    throw Error(
        cat("cdist: takes points a [.., M, D] and b [.., N, D] of one D, got ", a.shape(), " and ", b.shape(), "."));
  if (!is_floating(a.dtype()) || !is_floating(b.dtype()))
    throw Error(cat("cdist: takes floating points, got ", a.type().str(), " and ", b.type().str(), "."));
}

}  // namespace

Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options) {
  if (!is_floating(x.dtype())) return x;
  const double largest = largest_of(x.dtype());
  const Tensor finite = where(x < 0.0, options.neginf.value_or(-largest), options.posinf.value_or(largest));
  return where(is_nan(x), options.nan, where(is_inf(x), finite, x));
}

Tensor roll(const Tensor& x, const Axes& shifts, const Axes& axes) {
  if (shifts.size() != axes.size())
    throw Error(cat("roll: ", shifts.size(), " shifts for ", axes.size(), " axes; expected one for each."));
  Tensor y = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = normalize_axis(axes[i], x.rank(), "roll");
    const std::int64_t size = x.dim(axis);
    const std::int64_t by = size == 0 ? 0 : (shifts[i] % size + size) % size;
    if (by == 0) continue;
    const std::vector<Tensor> parts = split(y, {size - by, by}, axis);
    y = concat({parts[1], parts[0]}, axis);
  }
  return y;
}

// Each axis [m] of a and [n] of b as [m, 1] · [1, n], joined to [m · n].
Tensor kron(const Tensor& a, const Tensor& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape of_a, of_b, joined;
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.rank()), in_b = axis - (rank - b.rank());
    const std::int64_t m = in_a < 0 ? 1 : a.dim(in_a), n = in_b < 0 ? 1 : b.dim(in_b);
    for (const std::int64_t size : {m, std::int64_t{1}}) of_a.push_back(size);
    for (const std::int64_t size : {std::int64_t{1}, n}) of_b.push_back(size);
    joined.push_back(Shape{m, n}.numel());
  }
  return reshape(reshape(a, of_a) * reshape(b, of_b), joined);
}

// a: [.., M, D]  b: [.., N, D]. |a - b|² = |a|² + |b|² - 2a·b is one product, but cancels between points that are
// close.
Tensor cdist(const Tensor& a, const Tensor& b, const CdistOptions& options) {
  check_points(a, b);
  const DType dtype = promote(a.dtype(), b.dtype());
  const Tensor from = widened(a.to(dtype)), to = widened(b.to(dtype));
  if (options.exact || options.p != 2) {
    const Tensor apart = expand_dims(from, -2) - expand_dims(to, -3);
    return norm(apart, {.p = options.p, .axes = Axes{-1}}).to(dtype);
  }
  const Tensor from_length = sum(from * from, {.axes = Axes{-1}, .keep = true});
  const Tensor to_length = transpose(sum(to * to, {.axes = Axes{-1}, .keep = true}));
  const Tensor squares = from_length + to_length - 2 * matmul(from, to, {.transpose_b = true});
  return safe_sqrt(squares).to(dtype);
}

}  // namespace varve
