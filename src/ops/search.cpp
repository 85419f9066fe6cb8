// Searching and counting, composed of gathers and sums by place.
#include <bit>

#include "base/text.h"
#include "ops/shared.h"
#include "tensor/trace.h"
#include "varve/indexing.h"

namespace varve {
namespace {

// Whether an element of a sorted sequence stands before a value, in `sort`'s order: NaN last.
Tensor stands_before(const Tensor& element, const Tensor& value, bool right) {
  const Tensor numbers = right ? element <= value : element < value;
  if (!is_floating(value.dtype())) return numbers;
  const Tensor last = is_nan(value);
  return numbers || (right ? last : last && !is_nan(element));
}

void check_search(const Tensor& sorted, const Tensor& values) {
  bool fits = sorted.rank() == 1 || (sorted.rank() > 1 && sorted.rank() == values.rank());
  for (int a = 0; fits && sorted.rank() > 1 && a < sorted.rank() - 1; ++a) fits = sorted.dim(a) == values.dim(a);
  if (!fits)
    throw Error(cat("searchsorted: the sorted tensor must be [N], or have the leading axes of values ", values.shape(),
                    "; got ", sorted.shape(), "."));
}

void check_whole(const char* op, const Tensor& x) {
  if (is_floating(x.dtype()) || x.dtype() == boolean)
    throw Error(cat(op, ": counts integers, got ", x.type().str(), "; cast to i64, or use histogram."));
}

constexpr std::int64_t kMostBins = std::int64_t{1} << 40;

// One for each element, or its weight, and the places they are summed in.
Tensor sums_by_place(const char* op, const Tensor& at, const Tensor& inside, const Tensor& weights, std::int64_t bins) {
  const Tensor places = reshape(at, {at.numel()});
  if (weights.defined() && weights.shape() != at.shape())
    throw Error(cat(op, ": weights ", weights.shape(), " must have the shape of the values, ", at.shape(), "."));
  Tensor each = weights.defined() ? reshape(weights, {at.numel()}) : ones({at.numel()}, i64);
  if (each.dtype() == boolean) each = each.to(i64);
  if (inside.defined()) each = where(reshape(inside, {at.numel()}), each, zeros({}, each.dtype()));
  return scatter_add(zeros({bins}, each.dtype()), places, each);
}

}  // namespace

// The answer is built bit by bit from the highest: a step is taken if the element before its end stands before the
// value.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options) {
  check_search(sorted, values);
  const DType dtype = promote(sorted.dtype(), values.dtype());
  const Tensor row = sorted.to(dtype), wanted = values.to(dtype);
  const std::int64_t n = sorted.dim(-1);
  Tensor found = zeros(values.shape(), i64);
  if (n == 0) return found;
  const auto highest = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
  for (std::int64_t step = highest; step > 0; step /= 2) {
    const Tensor next = found + step, last = minimum(next, n) - 1;
    const Tensor element = sorted.rank() == 1 ? gather(row, last) : take_along_axis(row, last, -1);
    found = where(next <= n && stands_before(element, wanted, options.right), next, found);
  }
  return found;
}

Tensor isin(const Tensor& x, const Tensor& values) {
  if (values.numel() == 0) return zeros(x.shape(), boolean);
  const DType dtype = promote(x.dtype(), values.dtype());
  const Tensor wanted = x.to(dtype), known = sort(reshape(values.to(dtype), {values.numel()}));
  const Tensor place = minimum(searchsorted(known, wanted), values.numel() - 1);
  return equal(gather(known, place), wanted);
}

Tensor bincount(const Tensor& x, const BincountOptions& options) {
  check_whole("bincount", x);
  const Tensor places = x.to(i64);
  if (!options.bins && Trace::current())
    throw Error("bincount: in a traced function the number of bins must be given, since x cannot be read there.");
  const std::int64_t bins = options.bins ? *options.bins : x.numel() == 0 ? 0 : max(places).item<std::int64_t>() + 1;
  if (bins < 0 || bins > kMostBins)
    throw Error(cat("bincount: ", bins, " bins; expected 0 or more, and values of 0 or more."));
  return sums_by_place("bincount", places, {}, options.weights, bins);
}

std::pair<Tensor, Tensor> histogram(const Tensor& x, const HistogramOptions& options) {
  const std::int64_t bins = options.bins;
  if (bins < 1 || bins > kMostBins) throw Error(cat("histogram: ", bins, " bins; expected 1 or more."));
  const Tensor values = widened(x);
  Tensor low = zeros({}, values.dtype()), high = ones({}, values.dtype());
  if (options.range) {
    if (!(options.range->first <= options.range->second))
      throw Error(cat("histogram: the range ", options.range->first, " … ", options.range->second,
                      " must go from a smaller to a larger number."));
    low = full({}, options.range->first, values.dtype());
    high = full({}, options.range->second, values.dtype());
  } else if (x.numel() > 0) {
    low = min(values);
    high = max(values);
  }
  const Tensor same = equal(low, high);  // one value: a range of 1 around it
  low = where(same, low - 0.5, low);
  high = where(same, high + 0.5, high);
  const Tensor steps = arange(bins + 1).to(values.dtype()) / static_cast<double>(bins);
  const Tensor edges = low * (1 - steps) + high * steps;
  const Tensor inside = values >= low && values <= high;
  const Tensor place = clip(searchsorted(edges, values, {.right = true}) - 1, 0, bins - 1);
  return {sums_by_place("histogram", place, inside, options.weights, bins), edges};
}

}  // namespace varve
