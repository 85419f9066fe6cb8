// Convolution and pooling, channels last.
#include "ops.h"

namespace varve::python {
namespace {

std::vector<std::int64_t> two(const Both& given) {
  std::vector<std::int64_t> sizes = given.sizes;
  if (sizes.size() == 1) sizes.push_back(sizes[0]);
  return sizes;
}

std::vector<Padding> sides(const Paddings& given, std::size_t axes) {
  std::vector<Padding> all = given.all;
  if (all.size() == 1) all.resize(axes, all[0]);
  if (all.size() != axes)
    throw Error("padding: expected a number, or one for each of " + std::to_string(axes) + " axes, got " +
                std::to_string(all.size()) + ".");
  return all;
}

PoolOptions pool(const Both& window, const std::optional<Both>& stride, const Paddings& padding, bool count_padding,
                 bool ceil_mode) {
  return {two(window), stride ? two(*stride) : std::vector<std::int64_t>{}, sides(padding, 2), count_padding,
          ceil_mode};
}

void bind_pools(nb::module_& m) {
  op(
      m, "max_pool2d",
      [](const Tensor& x, const Both& window, const std::optional<Both>& stride, const Paddings& padding,
         bool ceil_mode) { return max_pool2d(x, pool(window, stride, padding, false, ceil_mode)); },
      R"(The largest element of each window of x [N, H, W, C]; the stride is the window unless given.

>>> vv.max_pool2d(vv.arange(16).reshape(1, 4, 4, 1)).reshape(2, 2).tolist()
[[5, 7], [13, 15]])",
      "x"_a, "window"_a = 2, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false);
  op(
      m, "avg_pool2d",
      [](const Tensor& x, const Both& window, const std::optional<Both>& stride, const Paddings& padding,
         bool count_padding,
         bool ceil_mode) { return avg_pool2d(x, pool(window, stride, padding, count_padding, ceil_mode)); },
      R"(The mean of each window of x [N, H, W, C]; count_padding divides by the whole window at the border too.

>>> vv.avg_pool2d(vv.ones((1, 4, 4, 1))).shape
(1, 2, 2, 1))",
      "x"_a, "window"_a = 2, "stride"_a = nb::none(), "padding"_a = 0, "count_padding"_a = false,
      "ceil_mode"_a = false);
  op(m, "global_avg_pool2d", global_avg_pool2d, R"(The mean of each channel: [N, H, W, C] to [N, C].

>>> vv.global_avg_pool2d(vv.ones((2, 4, 4, 3))).shape
(2, 3))",
     "x"_a);
  op(m, "global_max_pool2d", global_max_pool2d, R"(The largest element of each channel: [N, H, W, C] to [N, C].

>>> vv.global_max_pool2d(vv.arange(4).reshape(1, 2, 2, 1)).tolist()
[[3]])",
     "x"_a);
  op(m, "adaptive_avg_pool2d", adaptive_avg_pool2d, R"(Means over windows chosen so that the result has this size.

>>> vv.adaptive_avg_pool2d(vv.ones((1, 7, 7, 2)), 3, 3).shape
(1, 3, 3, 2))",
     "x"_a, "height"_a, "width"_a);
  op(m, "adaptive_max_pool2d", adaptive_max_pool2d,
     R"(Largest elements of windows chosen so that the result has this size.

>>> vv.adaptive_max_pool2d(vv.ones((1, 7, 7, 2)), 3, 3).shape
(1, 3, 3, 2))",
     "x"_a, "height"_a, "width"_a);
}

}  // namespace

void bind_convolutions(nb::module_& m) {
  op(
      m, "conv2d",
      [](const Tensor& x, const Tensor& w, const Both& stride, const Paddings& padding, const Both& dilation,
         std::int64_t groups) {
        return conv2d(x, w, {two(stride), sides(padding, 2), two(dilation), groups});
      },
      R"(x [N, H, W, I] · w [O, KH, KW, I / groups]. Padding: a number, one for each axis, or (before, after) for each.

>>> vv.conv2d(vv.ones((1, 5, 5, 1)), vv.ones((4, 3, 3, 1)), stride=2, padding=1).shape
(1, 3, 3, 4))",
      "x"_a, "w"_a, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1);
  op(
      m, "conv1d",
      [](const Tensor& x, const Tensor& w, std::int64_t stride, const Paddings& padding, std::int64_t dilation,
         std::int64_t groups) {
        return conv1d(x, w, {stride, sides(padding, 1)[0], dilation, groups});
      },
      R"(x [N, L, I] · w [O, K, I / groups].

>>> vv.conv1d(vv.ones((1, 5, 1)), vv.ones((1, 3, 1)), padding=[(2, 0)]).reshape(5).tolist()
[1.0, 2.0, 3.0, 3.0, 3.0])",
      "x"_a, "w"_a, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1);
  op(
      m, "conv2d_transpose",
      [](const Tensor& x, const Tensor& w, const Both& stride, const Paddings& padding, const Both& output_padding,
         const Both& dilation, std::int64_t groups) {
        return conv2d_transpose(x, w, {two(stride), sides(padding, 2), two(output_padding), two(dilation), groups});
      },
      R"(The gradient of a convolution as a layer: x [N, H, W, I] · w [I, KH, KW, O / groups] is a larger picture.

>>> vv.conv2d_transpose(vv.ones((1, 3, 3, 2)), vv.ones((2, 2, 2, 1)), stride=2).shape
(1, 6, 6, 1))",
      "x"_a, "w"_a, "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0, "dilation"_a = 1, "groups"_a = 1);
  op(
      m, "same_padding",
      [](std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
        const Padding padding = same_padding(size, kernel, stride, dilation);
        return std::pair(padding.before, padding.after);
      },
      R"(The padding (before, after) that gives ceil(size / stride) outputs.

>>> vv.same_padding(28, 3, 1), vv.same_padding(224, 7, 2)
((1, 1), (2, 3)))",
      "size"_a, "kernel"_a, "stride"_a, "dilation"_a = 1);
  bind_pools(m);
}

}  // namespace varve::python
