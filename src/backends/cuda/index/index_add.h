// Sums by row of updates whose rows are named by indices, deterministic.
#pragma once

#include <optional>

#include "backends/cuda/index/index_sort.h"
#include "backends/cuda/random/dropout.h"

namespace varve::cuda {

// y[o, indices[j], :] = x[o, indices[j], :] + Σ updates[o, j, :], and y = x elsewhere.
struct Scatter {
  std::int64_t rows = 0, inner = 0;  // of y as a matrix
  std::int64_t positions = 0;        // rows of updates
  DType dtype = f32;
  int x = -1, indices = 1, updates = 0;  // inputs; no x: zeros

  DType update_dtype = dtype;
  std::optional<Drop> drop = {};  // of the updates
  int drop_at = -1;               // the input that is its seed; the counter is next
  bool steps = false;             // y = x - rate · Σ
  double known_rate = 0;
  int rate_at = -1;  // the input that is the rate; none: known_rate

  std::int64_t bytes() const { return rows * inner * element_bytes(dtype); }
};

backend::Prepared prepare_scatter(const Scatter& s, const IndexSort::Keys& keys);

// Why no kernel would add such updates along this axis of y, or nothing.
std::string scatter_refusal(const Shape& y, std::int64_t axis, const Shape& updates, std::int64_t indices);

}  // namespace varve::cuda
