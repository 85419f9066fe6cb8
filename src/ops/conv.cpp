// Convolution of images, channels last. Its gradients stand in conv_grad.cpp.
#include "ops/conv.h"

#include <algorithm>

#include "base/text.h"
#include "ops/families.h"

namespace varve {
namespace conv {
namespace {

void check_list(const std::string& op, const char* what, const Ints& values, std::size_t count, std::int64_t least) {
  if (values.size() != count) throw Error(cat(op, ": ", what, " takes ", count, " numbers, got ", values.size(), "."));
  for (const std::int64_t value : values)
    if (value < least || value > kMostSize)
      throw Error(cat(op, ": ", what, " ", Shape(values), " must be ", least, " or more",
                      value < least ? "." : ", and at most 2^31."));
}

// Output size along one axis.
std::int64_t out_size(const std::string& op, const Geometry& g, int axis) {
  const auto i = static_cast<std::size_t>(axis);
  const std::int64_t size = g.x[1 + axis], kernel = g.w[1 + axis];
  const char* side = axis == 0 ? "high" : "wide";
  if (kernel < 1) throw Error(cat(op, ": kernel ", g.w, " is empty: it must be 1 or more ", side, "."));
  if (kernel > kMostSize || size > kMostSize)
    throw Error(cat(op, ": input ", g.x, " and kernel ", g.w, " must be at most 2^31 ", side, "."));
  const std::int64_t before = g.padding[2 * i], after = g.padding[2 * i + 1];
  const std::int64_t span = (kernel - 1) * g.dilation[i] + 1, padded = size + before + after;
  if (span > padded)
    throw Error(cat(op, ": the kernel does not fit the input: it is ", span, " ", side, " (", kernel, " with dilation ",
                    g.dilation[i], "), the input only ", padded, " (", size, " with padding ", before, " and ", after,
                    ")."));
  return (padded - span) / g.stride[i] + 1;
}

std::vector<TensorType> conv2d_shape(const Call& call) {
  const DType dtype = common_floating("conv2d", call.in[0], call.in[1]);
  return {{dtype, geometry("conv2d", call.in[0].shape, call.in[1].shape, call.attrs).y}};
}

// y = x * w;  linear in each, so each gradient is one of the two other operators
std::vector<Tensor> conv2d_vjp(const Vjp& v) {
  return {v.needs[0] ? input_grad(v.dy, v.in[1], v.in[0].shape(), v.attrs) : Tensor{},
          v.needs[1] ? weight_grad(v.in[0], v.dy, v.in[1].shape(), v.attrs) : Tensor{}};
}

Cost conv2d_cost(const Call& call, const std::vector<TensorType>& out) {
  return cost(geometry("conv2d", call.in[0].shape, call.in[1].shape, call.attrs), out[0].dtype);
}

const OpDef conv2d_op = define(OpRecord{
    .name = "conv2d",
    .doc = "Convolution of images x [N,H,W,I] with filters w [O,KH,KW,I/groups]",
    .family = "conv",
    .arity = 2,
    .shape = conv2d_shape,
    .gradient = conv2d_vjp,
    .cost = conv2d_cost,
    .batching = batch_forward,
});

}  // namespace

Geometry geometry(const std::string& op, const Shape& x, const Shape& w, const Attrs& attrs) {
  Geometry g{attrs.ints("stride"), attrs.ints("padding"), attrs.ints("dilation"), attrs.integer("groups"), x, w, {}};
  if (x.rank() != 4) throw Error(cat(op, ": the input must be [N, H, W, channels], got ", x, "."));
  if (w.rank() != 4) throw Error(cat(op, ": the weights must be [out, KH, KW, in/groups], got ", w, "."));
  check_list(op, "stride", g.stride, 2, 1);
  check_list(op, "padding", g.padding, 4, 0);
  check_list(op, "dilation", g.dilation, 2, 1);
  x.numel();
  w.numel();
  if (g.groups < 1 || x[3] % g.groups != 0 || w[0] % g.groups != 0)
    throw Error(
        cat(op, ": groups must divide the channels: ", g.groups, " does not divide ", x[3], " in and ", w[0], " out."));
  if (x[3] / g.groups != w[3])
    throw Error(cat(op, ": input ", x, " has ", x[3] / g.groups, " channels", g.groups > 1 ? " in a group" : "",
                    ", but the weights ", w, " take ", w[3], "."));
  g.y = {x[0], out_size(op, g, 0), out_size(op, g, 1), w[0]};
  return g;
}

DType common_floating(const std::string& op, const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || !is_floating(a.dtype))
    throw Error(cat(op, ": takes two tensors of one floating type, got ", a.str(), " and ", b.str(), "."));
  return a.dtype;
}

Cost cost(const Geometry& g, DType dtype) {
  const double taps = static_cast<double>(g.w[1]) * static_cast<double>(g.w[2]) * static_cast<double>(g.w[3]);
  const double elements =
      static_cast<double>(g.x.numel()) + static_cast<double>(g.w.numel()) + static_cast<double>(g.y.numel());
  return {2 * static_cast<double>(g.y.numel()) * taps, elements * static_cast<double>(size_of(dtype))};
}

Tensor forward(const Tensor& x, const Tensor& w, const Attrs& attrs) { return conv2d_op.call({x, w}, attrs)[0]; }

}  // namespace conv

namespace {

const Ints& two(const std::string& op, const char* what, const Ints& values) {
  if (values.size() != 2)
    throw Error(cat(op, ": ", what, " takes two numbers (height, width), got ", values.size(), "."));
  return values;
}

Ints sides(const std::string& op, const std::vector<Padding>& padding) {
  if (padding.size() != 2)
    throw Error(cat(op, ": padding takes two entries (height, width), got ", padding.size(), "."));
  return {padding[0].before, padding[0].after, padding[1].before, padding[1].after};
}

DType promoted(const std::string& op, const Tensor& x, const Tensor& w) {
  const DType dtype = promote(x.dtype(), w.dtype());
  if (!is_floating(dtype))
    throw Error(
        cat(op, ": takes floating tensors, got ", x.type().str(), " and ", w.type().str(), ". Convert with cast."));
  return dtype;
}

// The size that a convolution would have shrunk to `size`, and `extra` more that its stride skips; may be 0 or less.
std::int64_t grown(const std::string& op, const conv::Geometry& g, std::size_t axis, std::int64_t size,
                   std::int64_t kernel, std::int64_t extra) {
  if (extra < 0 || extra >= g.stride[axis])
    throw Error(cat(op, ": output_padding ", extra, " must be 0 or more and below the stride ", Shape(g.stride), "."));
  std::int64_t steps, span, result;
  if (__builtin_mul_overflow(size - 1, g.stride[axis], &steps) ||
      __builtin_mul_overflow(kernel - 1, g.dilation[axis], &span) || __builtin_add_overflow(steps, span, &result) ||
      __builtin_add_overflow(result, 1 + extra, &result) ||
      __builtin_sub_overflow(result, g.padding[2 * axis], &result) ||
      __builtin_sub_overflow(result, g.padding[2 * axis + 1], &result))
    throw Error(cat(op, ": stride ", Shape(g.stride), ", dilation ", Shape(g.dilation), " or padding ",
                    Shape(g.padding), " is too large."));
  return result;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& o) {
  const DType dtype = promoted("conv2d", x, w);
  return conv::forward(x.to(dtype), w.to(dtype),
                       {{"stride", two("conv2d", "stride", o.stride)},
                        {"padding", sides("conv2d", o.padding)},
                        {"dilation", two("conv2d", "dilation", o.dilation)},
                        {"groups", o.groups}});
}

Tensor conv1d(const Tensor& x, const Tensor& w, const Conv1dOptions& o) {
  if (x.rank() != 3 || w.rank() != 3)
    throw Error(
        cat("conv1d: takes x [N, L, channels] and w [out, K, in/groups], got ", x.shape(), " and ", w.shape(), "."));
  // An image one pixel high.
  const Tensor y =
      conv2d(expand_dims(x, 1), expand_dims(w, 1),
             {.stride = {1, o.stride}, .padding = {0, o.padding}, .dilation = {1, o.dilation}, .groups = o.groups});
  return squeeze(y, {1});
}

Tensor conv2d_transpose(const Tensor& x, const Tensor& w, const ConvTransposeOptions& o) {
  const std::string op = "conv2d_transpose";
  const DType dtype = promoted(op, x, w);
  conv::Geometry g{.stride = two(op, "stride", o.stride),
                   .padding = sides(op, o.padding),
                   .dilation = two(op, "dilation", o.dilation),
                   .groups = o.groups};
  const Ints extra = two(op, "output_padding", o.output_padding);
  if (x.rank() != 4 || w.rank() != 4 || x.dim(3) != w.dim(0))
    throw Error(
        cat(op, ": takes x [N, H, W, in] and w [in, KH, KW, out/groups], got ", x.shape(), " and ", w.shape(), "."));
  std::int64_t channels;
  if (o.groups < 1 || __builtin_mul_overflow(w.dim(3), o.groups, &channels))
    throw Error(cat(op, ": groups must be 1 or more and divide the channels, got ", o.groups, "."));
  // The gradient of the convolution that would map the result to x.
  g.x = {x.dim(0), grown(op, g, 0, x.dim(1), w.dim(1), extra[0]), grown(op, g, 1, x.dim(2), w.dim(2), extra[1]),
         channels};
  if (g.x[1] < 1 || g.x[2] < 1)
    throw Error(cat(op, ": padding ", Shape(g.padding), " leaves nothing of input ", x.shape(),
                    ": the output would be ", g.x, "."));
  return conv::input_grad(
      x.to(dtype), w.to(dtype), g.x,
      {{"stride", g.stride}, {"padding", g.padding}, {"dilation", g.dilation}, {"groups", g.groups}});
}

Padding same_padding(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
  for (const std::int64_t value : {kernel, stride, dilation})
    if (value < 1 || value > conv::kMostSize)
      throw Error(cat("same_padding: kernel ", kernel, ", stride ", stride, " and dilation ", dilation,
                      " must be 1 or more, and at most 2^31."));
  if (size < 0 || size > conv::kMostSize) throw Error(cat("same_padding: size ", size, " must be 0 to 2^31."));
  // The last window starts at the last multiple of the stride inside the input; what it lacks is split, the odd one
  // after.
  const std::int64_t last = size == 0 ? 0 : (size - 1) / stride * stride;
  const std::int64_t total = std::max<std::int64_t>(last + (kernel - 1) * dilation + 1 - size, 0);
  return {total / 2, total - total / 2};
}

std::vector<const OpRecord*> conv_ops() {
  std::vector<const OpRecord*> all{&conv::conv2d_op.record()};
  for (const OpRecord* op : conv::gradient_ops()) all.push_back(op);
  return all;
}

}  // namespace varve
