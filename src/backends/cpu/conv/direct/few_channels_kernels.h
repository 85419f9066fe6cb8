// The SIMD loops of convolutions over few input channels: vectors run along the output channels, and what lies under a
// row of taps is one straight run of memory.
#pragma once

#include <cstdint>

namespace varve::cpu::plain {

inline constexpr int kFewChannelsBlock = 6;  // pixels, or taps, that a block has at a time

// One row of results of one panel of output channels.
struct FewChannelsRow {
  const float* x;               // under the first tap of the first result
  std::int64_t x_pixel, x_row;  // from result to result, from one row of taps to the next
  std::int64_t rows, run;       // rows of taps, and how many values each has
  const float* weights;         // [rows, run, panel]
  const float* bias;            // [panel]; null: none
  bool relu;
  float* y;
  std::int64_t pixels, channels, count;  // results; from one to the next; how many of the panel's channels exist
};

// Sums over all results of an image: what up to kFewChannelsBlock taps saw times one panel of dy.
struct FewChannelsSums {
  const float* x[kFewChannelsBlock];  // under each tap, of the first result
  std::int64_t taps, x_pixel, x_row;
  const float* dy;
  std::int64_t dy_pixel, rows, pixels, count;
  float* sums;  // [taps, panel], added to
};

struct FewChannelsKernels {
  int panel;
  void (*row)(const FewChannelsRow& row);
  void (*sums)(const FewChannelsSums& sums);
};
FewChannelsKernels few_channels_kernels();

}  // namespace varve::cpu::plain
