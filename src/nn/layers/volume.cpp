#include "varve/nn/volume.h"

#include <cmath>

#include "nn/check.h"
#include "nn/state.h"

namespace varve::nn {
namespace {

void check_triple(const std::string& kind, const std::string& what, const Triple& value) {
  for (const std::int64_t size : value.vec()) check_size(kind, what, size);
}

std::vector<Padding> sides_for(const VolumePadding& padding, const Tensor& x, const Triple& kernel,
                               const Triple& stride, const Triple& dilation) {
  if (padding.kind != ConvPadding::same) return padding.sides;
  std::vector<Padding> sides;
  for (std::size_t i = 0; i < 3; ++i)
    sides.push_back(same_padding(x.dim(static_cast<int>(i) + 1), kernel.vec()[i], stride.vec()[i], dilation.vec()[i]));
  return sides;
}

std::vector<std::int64_t> resized_shape(const Tensor& x, const ResizeOptions& o) {
  if (x.rank() < 3 || x.rank() > 5)
    throw Error("resize: expected input [N, L, C], [N, H, W, C] or [N, D, H, W, C], got shape " + x.shape().str() +
                ".");
  const auto axes = static_cast<std::size_t>(x.rank() - 2);
  if (o.size.size() == 1) return std::vector<std::int64_t>(axes, o.size[0]);
  if (!o.size.empty()) return o.size;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < axes; ++i) {
    const double size = std::floor(static_cast<double>(x.dim(static_cast<int>(i) + 1)) * o.scale);
    if (!(size >= 1) || size > 0x1p31)
      throw Error("resize: a scale of " + std::to_string(o.scale) + " leaves nothing, or too much, of " +
                  x.shape().str() + ".");
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  return sizes;
}

}  // namespace

Conv3d::Conv3d(std::int64_t out, Conv3dOptions options) : out_(out), options_(std::move(options)) {
  check_size("conv3d", "the number of filters", out);
  check_triple("conv3d", "the kernel", options_.kernel);
  check_triple("conv3d", "the stride", options_.stride);
  check_triple("conv3d", "the dilation", options_.dilation);
  check_size("conv3d", "groups", options_.groups);
  if (out % options_.groups != 0)
    throw Error("conv3d: " + std::to_string(out) + " filters cannot be split into " + std::to_string(options_.groups) +
                " groups.");
  learns_size();
}

Tensor Conv3d::forward(Tensor x, Mode) {
  const Conv3dOptions& o = options_;
  check_rank(where(), x, 5, "[N, D, H, W, C]");
  if (const State::Entry* made = state()->find("weight"))
    check_features(where(), "input channels", made->variable.shape()[4] * o.groups, x);
  const std::int64_t in = x.dim(4), window = o.kernel.depth * o.kernel.height * o.kernel.width;
  if (in < 1 || in % o.groups != 0)
    throw Error(where() + ": " + std::to_string(in) + " input channels cannot be split into " +
                std::to_string(o.groups) + " groups.");
  const Fans fans = {in / o.groups * window, out_ / o.groups * window};
  const Variable weight =
      parameter("weight", {out_, o.kernel.depth, o.kernel.height, o.kernel.width, in / o.groups},
                weight_init(o.weight_init, o.activation), {.fans = fans, .foreign = {ForeignLayout::conv}});
  Tensor y = varve::conv3d(compute_type(x), compute_type(weight),
                           {.stride = o.stride.vec(),
                            .padding = sides_for(o.padding, x, o.kernel, o.stride, o.dilation),
                            .dilation = o.dilation.vec(),
                            .groups = o.groups});
  if (o.bias) y = y + compute_type(parameter("bias", {out_}, bias_init(o.bias_init), {.fans = fans}));
  return o.activation(y);
}

Tensor Pool3d::forward(Tensor x, Mode) {
  check_rank(where(), x, 5, "[N, D, H, W, C]");
  const Triple stride = options_.stride.value_or(window_);
  check_triple(where(), "the window", window_);
  check_triple(where(), "the stride", stride);
  const varve::Pool3dOptions options = {.window = window_.vec(),
                                        .stride = stride.vec(),
                                        .padding = sides_for(options_.padding, x, window_, stride, 1),
                                        .count_padding = options_.count_padding,
                                        .ceil_mode = options_.ceil_mode};
  return kind_ == Pool2d::max ? varve::max_pool3d(x, options) : varve::avg_pool3d(x, options);
}

Function global_avg_pool3d() {
  return function("global_avg_pool3d", [](const Tensor& x) { return varve::global_avg_pool3d(x); });
}
Function global_max_pool3d() {
  return function("global_max_pool3d", [](const Tensor& x) { return varve::global_max_pool3d(x); });
}
Function adaptive_avg_pool3d(Triple size) {
  check_triple("adaptive_avg_pool3d", "the output size", size);
  return function("adaptive_avg_pool3d", [size](const Tensor& x) {
    return varve::adaptive_avg_pool3d(x, size.depth, size.height, size.width);
  });
}

Function resize(ResizeOptions options) {
  for (const std::int64_t size : options.size) check_size("resize", "a size", size);
  if (options.size.empty() && !(options.scale > 0))
    throw Error("resize: the scale is " + std::to_string(options.scale) + "; expected more than 0.");
  return function("resize", [o = std::move(options)](const Tensor& x) {
    const bool plain = o.mode == Interpolation::nearest;
    const Rounding rounding = o.alignment == Alignment::asymmetric ? Rounding::down : Rounding::half_up;
    const std::vector<std::int64_t> sizes = resized_shape(x, o);
    return varve::resize(x, sizes,
                         {.mode = o.mode,
                          .alignment = o.alignment,
                          .antialias = o.antialias,
                          .rounding = plain ? rounding : Rounding::half_down,
                          .scales = std::vector<double>(o.size.empty() ? sizes.size() : 0, o.scale)});
  });
}

}  // namespace varve::nn
