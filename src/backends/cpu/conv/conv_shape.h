// The geometry of a convolution, as all its kernels read it.
#pragma once

#include <cstdint>

#include "varve/op.h"

namespace varve::cpu {

enum class ConvPass { forward, input_grad, weight_grad };

// x [N,H,W,I]  w [O,KH,KW,I/groups]  y [N,OH,OW,O]
struct ConvShape {
  std::int64_t batch, groups;
  std::int64_t in_height, in_width, in_channels;
  std::int64_t out_height, out_width, out_channels;
  std::int64_t kernel_height, kernel_width;
  std::int64_t stride_height, stride_width, dilation_height, dilation_width;
  std::int64_t pad_top, pad_bottom, pad_left, pad_right;

  std::int64_t in_group() const { return in_channels / groups; }
  std::int64_t out_group() const { return out_channels / groups; }
  std::int64_t taps() const { return kernel_height * kernel_width; }
  std::int64_t in_image() const { return in_height * in_width * in_channels; }
  std::int64_t out_image() const { return out_height * out_width * out_channels; }
  std::int64_t weights() const { return out_channels * taps() * in_group(); }
};

// Each pass misses the shape that it gives: the shapes are those of x, w and y in any case.
inline ConvShape conv_shape(const Shape& x, const Shape& w, const Shape& y, const Attrs& attrs) {
  const Ints &stride = attrs.ints("stride"), &padding = attrs.ints("padding"), &dilation = attrs.ints("dilation");
  return {.batch = x[0],
          .groups = attrs.integer("groups"),
          .in_height = x[1],
          .in_width = x[2],
          .in_channels = x[3],
          .out_height = y[1],
          .out_width = y[2],
          .out_channels = y[3],
          .kernel_height = w[1],
          .kernel_width = w[2],
          .stride_height = stride[0],
          .stride_width = stride[1],
          .dilation_height = dilation[0],
          .dilation_width = dilation[1],
          .pad_top = padding[0],
          .pad_bottom = padding[1],
          .pad_left = padding[2],
          .pad_right = padding[3]};
}

}  // namespace varve::cpu
