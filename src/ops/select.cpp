// Choosing by value: how many elements come out is known only when the values are, so these read them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "tensor/trace.h"
#include "varve/indexing.h"

namespace varve {
namespace {

void check_readable(const char* op, const Tensor& x) {
  if (!Trace::current() || x.ready()) return;
  throw Error(
      cat(op,
          ": cannot stand in a traced function: how many elements come out depends on values, and a program "
          "has fixed shapes. Call it outside and pass on what it gives, or keep all elements and use where()."));
}

std::vector<std::int64_t> true_places(const Tensor& x) {
  std::vector<std::int64_t> places;
  const std::vector<double> values = x.to_vector<double>();  // no number but 0 becomes 0
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0) places.push_back(static_cast<std::int64_t>(i));
  return places;
}

// Ascending; NaN, if any, last and equal to itself.
template <class T>
bool comes_before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a < b;
}

template <class T>
Unique unique_of(const Tensor& x) {
  const std::vector<T> all = x.to_vector<T>();
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return comes_before(all[a], all[b]); });
  std::vector<T> values;
  std::vector<std::int64_t> inverse(all.size()), counts;
  for (const std::size_t i : order) {
    if (values.empty() || comes_before(values.back(), all[i])) {
      values.push_back(all[i]);
      counts.push_back(0);
    }
    inverse[i] = static_cast<std::int64_t>(values.size()) - 1;
    ++counts.back();
  }
  return {tensor(values).to(x.dtype()), tensor(inverse, x.shape()), tensor(counts)};
}

}  // namespace

Unique unique(const Tensor& x) {
  check_readable("unique", x);
  return is_floating(x.dtype()) ? unique_of<double>(x) : unique_of<std::int64_t>(x);
}

Tensor nonzero(const Tensor& x) {
  check_readable("nonzero", x);
  const std::vector<std::int64_t> places = true_places(x);
  const auto rank = static_cast<std::size_t>(x.rank());
  std::vector<std::int64_t> index(places.size() * rank);
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::int64_t rest = places[i];
    for (std::size_t a = rank; a-- > 0;) {
      index[i * rank + a] = rest % x.dim(static_cast<int>(a));
      rest /= x.dim(static_cast<int>(a));
    }
  }
  return tensor(index, {static_cast<std::int64_t>(places.size()), x.rank()});
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  bool fits = mask.dtype() == boolean && mask.rank() <= x.rank();
  for (int a = 0; fits && a < mask.rank(); ++a) fits = mask.dim(a) == x.dim(a);
  if (!fits)
    throw Error(cat("masked_select: the mask must be bool and have the leading axes of x ", x.shape(), "; got ",
                    mask.type().str(), "."));
  check_readable("masked_select", mask);
  Shape flat = {mask.numel()};
  for (int a = mask.rank(); a < x.rank(); ++a) flat.push_back(x.dim(a));
  return gather(reshape(x, flat), tensor(true_places(mask)));
}

}  // namespace varve
