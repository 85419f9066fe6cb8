// The SIMD loops of maximum pooling, a row of windows at a time, along the channels.
#pragma once

#include <cstdint>

#include "varve/dtype.h"

namespace varve::cpu {

// Windows side by side over some rows of an image [rows, width, channels].
struct PoolRow {
  const void* x;      // the first of the covered rows
  std::int64_t rows;  // covered, one or more
  std::int64_t width, channels;
  std::int64_t out_width, window, stride, before;  // along the row
};

// The largest of each window: the first of equals, row by row; NaN is larger than anything.
struct PoolKernels {
  void (*largest)(const PoolRow& row, void* y);  // y [out_width, channels]
  // Windows that do not overlap: dx (like x) gets each dy [out_width, channels] at its window's largest and zeros at
  // the window's other cells. `positive`: only where the largest is above zero. What dx gets is also added to `sums`
  // [channels], unless null.
  void (*spread)(const PoolRow& row, const float* dy, bool positive, void* dx, float* sums);
};

PoolKernels pool_kernels(DType images);  // f32 or bf16

}  // namespace varve::cpu
