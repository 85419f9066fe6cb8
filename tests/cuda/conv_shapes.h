// Convolutions for tests: of single taps, by 3×3 with one more pixel around, and of large images in three colours.
#pragma once

#include "backends/cuda/conv/conv_shape.h"

namespace varve::cuda {

inline ConvShape pixels(std::int64_t batch, std::int64_t side, std::int64_t in, std::int64_t out) {
  return {.batch = batch,
          .groups = 1,
          .in_height = side,
          .in_width = side,
          .in_channels = in,
          .out_height = side,
          .out_width = side,
          .out_channels = out,
          .kernel_height = 1,
          .kernel_width = 1,
          .stride_height = 1,
          .stride_width = 1,
          .dilation_height = 1,
          .dilation_width = 1};
}

inline ConvShape framed(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t in,
                        std::int64_t out) {
  ConvShape s = pixels(batch, height, in, out);
  s.in_width = s.out_width = width;
  s.kernel_height = s.kernel_width = 3;
  s.pad_top = s.pad_bottom = s.pad_left = s.pad_right = 1;
  return s;
}
inline ConvShape square(std::int64_t batch, std::int64_t side, std::int64_t in, std::int64_t out) {
  return framed(batch, side, side, in, out);
}

inline ConvShape first_layer(std::int64_t batch, std::int64_t side, std::int64_t kernel, std::int64_t stride,
                             std::int64_t out) {
  ConvShape s = pixels(batch, side, 3, out);
  s.kernel_height = s.kernel_width = kernel;
  s.stride_height = s.stride_width = stride;
  s.pad_top = s.pad_bottom = s.pad_left = s.pad_right = kernel / 2;
  s.out_height = s.out_width = (side + kernel / 2 * 2 - kernel) / stride + 1;
  return s;
}

}  // namespace varve::cuda
