// Sums down the columns of a matrix, by blocks of rows that are read as they lie in memory. Blocks depend on sizes
// alone, so bits do not change with the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/common/scratch.h"
#include "base/threads.h"

namespace varve::cpu {

class ColumnSums {
 public:
  ColumnSums(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), block_((std::max(rows / kMostBlocks, kRows) + kRows - 1) / kRows * kRows) {}

  std::size_t scratch_bytes() const {
    return static_cast<std::size_t>(blocks()) * (column_bytes(sizeof(double)) + column_bytes(sizeof(float)));
  }

  // add(begin, end, sums) adds rows [begin, end) to `sums`, a float for each column.
  template <class Add>
  void run(void* scratch, Add add) const {
    constexpr std::int64_t kWorthIt = 16384;  // elements that are worth a thread's while
    const std::int64_t grain = std::max<std::int64_t>(kWorthIt / std::max<std::int64_t>(block_ * columns_, 1), 1);
    parallel_for(blocks(), grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t block = first; block < last; ++block) {
        double* total = totals(scratch, block);
        float* part = parts(scratch, block);
        std::fill_n(total, columns_, 0.0);
        const std::int64_t end = std::min(rows_, (block + 1) * block_);
        for (std::int64_t row = block * block_; row < end; row += kRows) {
          std::fill_n(part, columns_, 0.0f);
          add(row, std::min(row + kRows, end), part);
          for (std::int64_t c = 0; c < columns_; ++c) total[c] += static_cast<double>(part[c]);
        }
      }
    });
  }

  // store(column, sum) for columns [first, last), after run().
  template <class Store>
  void finish(void* scratch, std::int64_t first, std::int64_t last, Store store) const {
    constexpr std::int64_t kChunk = 256;
    parallel_for(last - first, kChunk, [&](std::int64_t begin, std::int64_t end) {
      double sums[kChunk] = {};
      for (std::int64_t block = 0; block < blocks(); ++block) {
        const double* total = totals(scratch, block) + first;
        for (std::int64_t c = begin; c < end; ++c) sums[c - begin] += total[c];
      }
      for (std::int64_t c = begin; c < end; ++c) store(c, static_cast<float>(sums[c - begin]));
    });
  }

 private:
  // So many rows are added as floats, so many blocks at most have sums of their own.
  static constexpr std::int64_t kRows = 64, kMostBlocks = 256;

  std::int64_t blocks() const { return (rows_ + block_ - 1) / block_; }
  std::size_t column_bytes(std::size_t element) const {
    return cache_aligned(static_cast<std::size_t>(columns_) * element);
  }
  double* totals(void* scratch, std::int64_t block) const {
    return reinterpret_cast<double*>(static_cast<std::byte*>(scratch) +
                                     static_cast<std::size_t>(block) * column_bytes(sizeof(double)));
  }
  float* parts(void* scratch, std::int64_t block) const {
    return reinterpret_cast<float*>(reinterpret_cast<std::byte*>(totals(scratch, blocks())) +
                                    static_cast<std::size_t>(block) * column_bytes(sizeof(float)));
  }

  std::int64_t rows_, columns_, block_;
};

}  // namespace varve::cpu
