#include "backend/conv_shape.h"

namespace varve::backend {
namespace {

ConvShape conv_shape(const Shape& x, const Shape& w, const Shape& y, const Attrs& attrs) {
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

}  // namespace

const char* name(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return "conv2d";
    case ConvPass::input_grad:
      return "conv2d_input_grad";
    case ConvPass::weight_grad:
      break;
  }
  return "conv2d_weight_grad";
}

ConvCall conv_call(const ir::Node& node) {
  const ConvPass pass = node.is("conv2d")              ? ConvPass::forward
                        : node.is("conv2d_input_grad") ? ConvPass::input_grad
                                                       : ConvPass::weight_grad;
  // Each pass gives the shape that it is not told.
  const Shape &first = node.inputs[0].type().shape, &second = node.inputs[1].type().shape, &out = node.types[0].shape;
  const Shape& x = pass == ConvPass::input_grad ? out : first;
  const Shape& w = pass == ConvPass::weight_grad ? out : second;
  const Shape& y = pass == ConvPass::forward ? out : pass == ConvPass::input_grad ? first : second;
  return {pass, conv_shape(x, w, y, node.attrs), x.numel() == 0 || w.numel() == 0 || y.numel() == 0};
}

}  // namespace varve::backend
