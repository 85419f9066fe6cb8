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

}  // namespace varve
