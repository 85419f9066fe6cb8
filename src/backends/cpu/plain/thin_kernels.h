// The SIMD loops of convolutions over few input channels: vectors run along the output channels, and what lies under a
// row of taps is one straight run of memory.
#pragma once

#include <cstdint>

namespace varve::cpu::plain {

inline constexpr int kThinRows = 6;  // pixels, or taps, that a block has at a time

// One row of results of one panel of output channels.
struct ThinRow {
  const float* x;               // under the first tap of the first result
  std::int64_t x_pixel, x_row;  // from result to result, from one row of taps to the next
  std::int64_t rows, run;       // rows of taps, and how many values each has
  const float* weights;         // [rows, run, panel]
  const float* bias;            // [panel]; null: none
  bool relu;
  float* y;
  std::int64_t pixels, channels, count;  // results; from one to the next; how many of the panel's channels exist
};

// Sums over all results of an image: what up to kThinRows taps saw times one panel of dy.
struct ThinSums {
  const float* x[kThinRows];  // under each tap, of the first result
  std::int64_t taps, x_pixel, x_row;
  const float* dy;
  std::int64_t dy_pixel, rows, pixels, count;
  float* sums;  // [taps, panel], added to
};

struct ThinKernels {
  int panel;
  void (*row)(const ThinRow& row);
  void (*sums)(const ThinSums& sums);
};
ThinKernels thin_kernels();

}  // namespace varve::cpu::plain
