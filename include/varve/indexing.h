// Writing at positions, searching, counting and choosing, beside the indexing of ops.h. An index out of range is an
// Error at the next read.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "varve/ops.h"

namespace varve {

// ---- writing (src/ops/scatter.cpp). Updates of one place are taken in their order: of several assigned, the last
// stays.
enum class ScatterMode : std::uint8_t { assign, sum, max, min, product };
struct ScatterOptions {
  ScatterMode mode = ScatterMode::assign;
  std::int64_t axis = 0;
};
// x with slices along an axis set to those of updates, or joined with them. Updates: x's axis replaced by indices'
// shape.
Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, const ScatterOptions& = {});
// The same for single elements: indices and updates have x's shape but for the axis.
Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Tensor& updates, std::int64_t axis,
                      ScatterMode mode = ScatterMode::assign);

// ---- searching and counting (src/ops/search.cpp)
// Where values would be inserted to keep `sorted` in order, i64: before equal elements, or behind them. `sorted` is
// [N], or has the leading axes of values. NaN comes last.
struct SearchOptions {
  bool right = false;  // behind equal elements
};
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& = {});
Tensor isin(const Tensor& x, const Tensor& values);  // bool: which elements of x are among values
struct BincountOptions {
  std::optional<std::int64_t> bins = {};  // unless given, the largest value and one: x is read
  Tensor weights = {};                    // summed in place of counting
};
Tensor bincount(const Tensor& x, const BincountOptions& = {});  // how often 0, 1, … occur in x; i64, or as the weights
struct HistogramOptions {
  std::int64_t bins = 10;
  std::optional<std::pair<double, double>> range = {};  // from the smallest to the largest value unless given
  Tensor weights = {};
};
// Counts and the bins + 1 edges. A bin has its left edge, the last one both; values outside the range count nowhere.
std::pair<Tensor, Tensor> histogram(const Tensor& x, const HistogramOptions& = {});

// ---- choosing (src/ops/select.cpp). How many elements come out depends on values: these read them, so they are
// refused in traced functions.
struct Unique {
  Tensor values;   // ascending; NaN last and once
  Tensor inverse;  // i64, of x's shape: where in values each element stands
  Tensor counts;   // i64: how often each occurs
};
Unique unique(const Tensor& x);
Tensor nonzero(const Tensor& x);                            // i64 [how many, rank], row-major order
Tensor masked_select(const Tensor& x, const Tensor& mask);  // mask: bool, of x's leading axes; [how many, rest…]

}  // namespace varve
