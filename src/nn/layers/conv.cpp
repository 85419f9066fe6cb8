#include "nn/check.h"
#include "nn/state.h"
#include "nn/steps.h"

namespace varve::nn {
namespace {

void check_options(const std::string& kind, const Conv2dOptions& options) {
  check_pair(kind, "the kernel", options.kernel);
  check_pair(kind, "the stride", options.stride);
  check_pair(kind, "the dilation", options.dilation);
  check_size(kind, "groups", options.groups);
}

void check_groups(const std::string& where, std::int64_t channels, const std::string& what, std::int64_t groups) {
  if (channels % groups != 0)
    throw Error(where + ": " + std::to_string(channels) + " " + what + " cannot be split into " +
                std::to_string(groups) + " groups.");
}

// Inputs that one output of a convolution sums over, and outputs that one input reaches.
Fans conv_fans(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t groups) {
  return {in / groups * window, out / groups * window};
}

varve::Conv2dOptions operator_options(const Conv2dOptions& o, const Tensor& x, std::int64_t groups) {
  const auto [rows, columns] = padding_for(o.padding, x, o.kernel, o.stride, o.dilation);
  return {.stride = {o.stride.height, o.stride.width},
          .padding = {rows, columns},
          .dilation = {o.dilation.height, o.dilation.width},
          .groups = groups};
}

}  // namespace

ConvPadding::ConvPadding(const char* word) : ConvPadding(std::string(word ? word : "")) {}
ConvPadding::ConvPadding(const std::string& word) {
  if (word == "same")
    kind = same;
  else if (word != "valid")
    throw Error("padding: expected \"same\", \"valid\" or sizes, got \"" + word + "\".");
}

std::pair<Padding, Padding> padding_for(const ConvPadding& padding, const Tensor& x, const Pair& kernel,
                                        const Pair& stride, const Pair& dilation) {
  if (padding.kind != ConvPadding::same) return {padding.rows, padding.columns};
  return {same_padding(x.dim(1), kernel.height, stride.height, dilation.height),
          same_padding(x.dim(2), kernel.width, stride.width, dilation.width)};
}

Conv2d::Conv2d(std::int64_t out, Conv2dOptions options) : out_(out), options_(std::move(options)) {
  check_size("conv2d", "the number of filters", out);
  check_options("conv2d", options_);
  check_groups("conv2d", out, "filters", options_.groups);
  learns_size();
}

Tensor Conv2d::forward(Tensor x, Mode) {
  const Conv2dOptions& o = options_;
  check_rank(where(), x, 4, "[N, H, W, C]");
  if (const State::Entry* made = state()->find("weight"))
    check_features(where(), "input channels", made->variable.shape()[3] * o.groups, x);
  const std::int64_t in = x.dim(3);
  check_groups(where(), in, "input channels", o.groups);
  const Fans fans = conv_fans(in, out_, o.kernel.height * o.kernel.width, o.groups);
  const Variable weight =
      parameter("weight", {out_, o.kernel.height, o.kernel.width, in / o.groups},
                weight_init(o.weight_init, o.activation), {.fans = fans, .foreign = {ForeignLayout::conv}});
  Tensor y = varve::conv2d(compute_type(x), compute_type(weight), operator_options(o, x, o.groups));
  if (o.bias) y = y + compute_type(parameter("bias", {out_}, bias_init(o.bias_init), {.fans = fans}));
  return o.activation(y);
}

DepthwiseConv2d::DepthwiseConv2d(Conv2dOptions options, std::int64_t multiplier)
    : options_(std::move(options)), multiplier_(multiplier) {
  check_size("depthwise_conv2d", "the multiplier", multiplier);
  check_options("depthwise_conv2d", options_);
  learns_size();
}

Tensor DepthwiseConv2d::forward(Tensor x, Mode) {
  const Conv2dOptions& o = options_;
  check_rank(where(), x, 4, "[N, H, W, C]");
  if (const State::Entry* made = state()->find("weight"))
    check_features(where(), "input channels", made->variable.shape()[0] / multiplier_, x);
  const std::int64_t in = x.dim(3), out = in * multiplier_;
  if (in < 1) throw Error(where() + ": the input has no channels (input shape " + x.shape().str() + ").");
  const Fans fans = conv_fans(in, out, o.kernel.height * o.kernel.width, in);
  const Variable weight =
      parameter("weight", {out, o.kernel.height, o.kernel.width, 1}, weight_init(o.weight_init, o.activation),
                {.fans = fans, .foreign = {ForeignLayout::conv}});
  Tensor y = varve::conv2d(compute_type(x), compute_type(weight), operator_options(o, x, in));
  if (o.bias) y = y + compute_type(parameter("bias", {out}, bias_init(o.bias_init), {.fans = fans}));
  return o.activation(y);
}

Conv1d::Conv1d(std::int64_t out, Conv1dOptions options) : out_(out), options_(std::move(options)) {
  check_size("conv1d", "the number of filters", out);
  check_size("conv1d", "the kernel", options_.kernel);
  check_size("conv1d", "the stride", options_.stride);
  check_size("conv1d", "the dilation", options_.dilation);
  check_size("conv1d", "groups", options_.groups);
  check_groups("conv1d", out, "filters", options_.groups);
  learns_size();
}

Tensor Conv1d::forward(Tensor x, Mode mode) { return masked_forward(std::move(x), mode, {}).y; }

// Of the windows that an unpadded sequence has: all around each step, or those without a step beyond its ends.
Mask Conv1d::mask_of_windows(const Mask& mask) const {
  const Conv1dOptions& o = options_;
  const std::int64_t reach = (o.kernel - 1) * o.dilation;
  if (o.padding.kind == ConvPadding::same || reach == 0) return mask;
  if (o.padding.kind != ConvPadding::valid)
    throw Error(where() +
                ": padding in numbers and a mask: it is not known where sequences end then. Use \"same\" or "
                "\"valid\".");
  const std::int64_t steps = std::max<std::int64_t>(mask.steps() - reach, 0);
  if (mask.right_padded()) return Mask::of_lengths(maximum(mask.lengths() - reach, 0), steps);
  const Tensor first = mask.valid().slice({{}, {0, steps}});
  return Mask::of_valid(logical_and(first, mask.valid().slice({{}, {mask.steps() - steps, mask.steps()}})));
}

Masked Conv1d::masked_forward(Tensor x, Mode, const Mask& mask) {
  const Conv1dOptions& o = options_;
  if (mask.defined() && o.stride != 1)
    throw Error(where() + ": a stride of " + std::to_string(o.stride) +
                " and a mask: which steps are left would depend on the padding. Pool over time, or drop the mask with "
                "an unmask layer before it.");
  check_rank(where(), x, 3, "[N, T, C]");
  if (const State::Entry* made = state()->find("weight"))
    check_features(where(), "input channels", made->variable.shape()[2] * o.groups, x);
  const std::int64_t in = x.dim(2);
  check_groups(where(), in, "input channels", o.groups);
  const Fans fans = conv_fans(in, out_, o.kernel, o.groups);
  const Variable weight = parameter("weight", {out_, o.kernel, in / o.groups}, weight_init(o.weight_init, o.activation),
                                    {.fans = fans, .foreign = {ForeignLayout::conv}});
  const Padding padding =
      o.padding.kind == ConvPadding::same ? same_padding(x.dim(1), o.kernel, o.stride, o.dilation) : o.padding.rows;
  Tensor y = varve::conv1d(compute_type(zero_padding(x, mask)), compute_type(weight),
                           {.stride = o.stride, .padding = padding, .dilation = o.dilation, .groups = o.groups});
  if (o.bias) y = y + compute_type(parameter("bias", {out_}, bias_init(o.bias_init), {.fans = fans}));
  return {o.activation(y), mask.defined() ? mask_of_windows(mask) : mask};
}

Conv2dTranspose::Conv2dTranspose(std::int64_t out, ConvTransposeOptions2d options)
    : out_(out), options_(std::move(options)) {
  check_size("conv2d_transpose", "the number of filters", out);
  check_pair("conv2d_transpose", "the kernel", options_.kernel);
  check_pair("conv2d_transpose", "the stride", options_.stride);
  check_pair("conv2d_transpose", "the padding", options_.padding, 0);
  check_pair("conv2d_transpose", "the output padding", options_.output_padding, 0);
  learns_size();
}

Tensor Conv2dTranspose::forward(Tensor x, Mode) {
  const ConvTransposeOptions2d& o = options_;
  check_rank(where(), x, 4, "[N, H, W, C]");
  if (const State::Entry* made = state()->find("weight"))
    check_features(where(), "input channels", made->variable.shape()[0], x);
  const std::int64_t in = x.dim(3), window = o.kernel.height * o.kernel.width;
  const Fans fans = {in * window, out_ * window};
  const Variable weight =
      parameter("weight", {in, o.kernel.height, o.kernel.width, out_}, weight_init(o.weight_init, o.activation),
                {.fans = fans, .foreign = {ForeignLayout::conv_back}});
  Tensor y = varve::conv2d_transpose(compute_type(x), compute_type(weight),
                                     {.stride = {o.stride.height, o.stride.width},
                                      .padding = {o.padding.height, o.padding.width},
                                      .output_padding = {o.output_padding.height, o.output_padding.width}});
  if (o.bias) y = y + compute_type(parameter("bias", {out_}, bias_init(o.bias_init), {.fans = fans}));
  return o.activation(y);
}

}  // namespace varve::nn
