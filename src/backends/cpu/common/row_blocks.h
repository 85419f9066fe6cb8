// Sharing the rows of a matrix among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "backends/cpu/common/matrix.h"
#include "base/threads.h"

namespace varve::cpu {

// f(offset of the row's first element, columns, row) for every row, in blocks of some 16,000 elements.
template <class F>
void for_rows(Matrix shape, F f) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(shape.columns, 1));
  parallel_for(shape.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      f(row * shape.columns, static_cast<std::size_t>(shape.columns), row);
    }
  });
}

// The smallest row that any thread complained about.
class FirstBad {
 public:
  void note(std::int64_t row) {
    std::int64_t seen = first_.load(std::memory_order_relaxed);
    while (row < seen && !first_.compare_exchange_weak(seen, row, std::memory_order_relaxed)) {
    }
  }
  std::int64_t row() const {
    const std::int64_t first = first_.load(std::memory_order_relaxed);
    return first == kNone ? -1 : first;
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> first_ = kNone;
};

}  // namespace varve::cpu
