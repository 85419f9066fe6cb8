// The geometry of a convolution, as all its kernels read it.
#pragma once

#include <cstdint>

#include "ir/node.h"

namespace varve::backend {

enum class ConvPass { forward, input_grad, weight_grad };
const char* name(ConvPass pass);  // "conv2d_input_grad"

// x [N,H,W,I]  w [O,KH,KW,I/groups]  y [N,OH,OW,O]. CUDA kernels take it as it is: conv/conv_plain.cu has the same
// fields.
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
  std::int64_t in_pixels() const { return batch * in_height * in_width; }
  std::int64_t out_pixels() const { return batch * out_height * out_width; }
  std::int64_t in_image() const { return in_height * in_width * in_channels; }
  std::int64_t out_image() const { return out_height * out_width * out_channels; }
  std::int64_t weights() const { return out_channels * taps() * in_group(); }
  bool operator==(const ConvShape&) const = default;
};

// Which of the three operators a node is, and its geometry.
struct ConvCall {
  ConvPass pass;
  ConvShape shape;
  bool empty;  // one of the three tensors
};
ConvCall conv_call(const ir::Node& node);

}  // namespace varve::backend
