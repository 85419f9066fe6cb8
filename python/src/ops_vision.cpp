// Resizing, sampling, and convolution and pooling of volumes, channels last.
#include "ops.h"

namespace varve::python {
namespace {

std::vector<std::int64_t> three(const Both& given) {
  return given.sizes.size() == 1 ? std::vector<std::int64_t>(3, given.sizes[0]) : given.sizes;
}

std::vector<Padding> three(const Paddings& given) {
  return given.all.size() == 1 ? std::vector<Padding>(3, given.all[0]) : given.all;
}

Pool3dOptions pool3d(const Both& window, const std::optional<Both>& stride, const Paddings& padding, bool count_padding,
                     bool ceil_mode) {
  return {three(window), stride ? three(*stride) : std::vector<std::int64_t>{}, three(padding), count_padding,
          ceil_mode};
}

void bind_volumes(nb::module_& m) {
  op(
      m, "conv3d",
      [](const Tensor& x, const Tensor& w, const Both& stride, const Paddings& padding, const Both& dilation,
         std::int64_t groups) {
        return conv3d(x, w, {three(stride), three(padding), three(dilation), groups});
      },
      R"(x [N, D, H, W, I] · w [O, KD, KH, KW, I / groups]. Padding: a number, one for each axis, or (before, after) for each.

>>> vv.conv3d(vv.ones((1, 4, 5, 5, 1)), vv.ones((2, 3, 3, 3, 1)), stride=2, padding=1).shape
(1, 2, 3, 3, 2))",
      "x"_a, "w"_a, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1);
  op(
      m, "max_pool3d",
      [](const Tensor& x, const Both& window, const std::optional<Both>& stride, const Paddings& padding,
         bool ceil_mode) { return max_pool3d(x, pool3d(window, stride, padding, false, ceil_mode)); },
      R"(The largest element of each window of x [N, D, H, W, C]; the stride is the window unless given.

>>> vv.max_pool3d(vv.arange(8).reshape(1, 2, 2, 2, 1)).tolist()
[[[[[7]]]]])",
      "x"_a, "window"_a = 2, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false);
  op(
      m, "avg_pool3d",
      [](const Tensor& x, const Both& window, const std::optional<Both>& stride, const Paddings& padding,
         bool count_padding,
         bool ceil_mode) { return avg_pool3d(x, pool3d(window, stride, padding, count_padding, ceil_mode)); },
      R"(The mean of each window of x [N, D, H, W, C]; count_padding divides by the whole window at the border too.

>>> vv.avg_pool3d(vv.ones((1, 4, 4, 4, 1))).shape
(1, 2, 2, 2, 1))",
      "x"_a, "window"_a = 2, "stride"_a = nb::none(), "padding"_a = 0, "count_padding"_a = false,
      "ceil_mode"_a = false);
  op(m, "global_avg_pool3d", global_avg_pool3d, R"(The mean of each channel: [N, D, H, W, C] to [N, C].

>>> vv.global_avg_pool3d(vv.ones((2, 4, 4, 4, 3))).shape
(2, 3))",
     "x"_a);
  op(m, "global_max_pool3d", global_max_pool3d, R"(The largest element of each channel: [N, D, H, W, C] to [N, C].

>>> vv.global_max_pool3d(vv.arange(8).reshape(1, 2, 2, 2, 1)).tolist()
[[7]])",
     "x"_a);
  op(m, "adaptive_avg_pool3d", adaptive_avg_pool3d, R"(Means over windows chosen so that the result has this size.

>>> vv.adaptive_avg_pool3d(vv.ones((1, 7, 7, 7, 2)), 2, 3, 3).shape
(1, 2, 3, 3, 2))",
     "x"_a, "depth"_a, "height"_a, "width"_a);
  op(m, "adaptive_max_pool3d", adaptive_max_pool3d,
     R"(Largest elements of windows chosen so that the result has this size.

>>> vv.adaptive_max_pool3d(vv.ones((1, 7, 7, 7, 2)), 2, 3, 3).shape
(1, 2, 3, 3, 2))",
     "x"_a, "depth"_a, "height"_a, "width"_a);
}

}  // namespace

void bind_vision(nb::module_& m) {
  op(
      m, "resize",
      [](const Tensor& x, const Axes& sizes, Interpolation mode, Alignment alignment, bool antialias, Rounding rounding,
         const std::optional<double>& cubic, bool exclude_outside, const std::optional<std::vector<double>>& scales) {
        return resize(
            x, sizes,
            {mode, alignment, antialias, rounding, cubic, exclude_outside, scales.value_or(std::vector<double>{})});
      },
      R"(A signal [N, L, C], pictures [N, H, W, C] or volumes [N, D, H, W, C] in another size.

As PyTorch's interpolate and ONNX's Resize do it, unless changed. PyTorch's "nearest" is mode="nearest",
alignment="asymmetric", rounding="down". antialias averages over what a smaller picture leaves out.

>>> vv.resize(vv.tensor([0.0, 1.0]).reshape(1, 2, 1), 4).reshape(4).tolist()
[0.0, 0.25, 0.75, 1.0]
>>> vv.resize(vv.ones((1, 4, 6, 3)), (8, 3), mode="cubic", antialias=True).shape
(1, 8, 3, 3))",
      "x"_a, "sizes"_a, "mode"_a = "linear", "alignment"_a = "half_pixel", "antialias"_a = false,
      "rounding"_a = "half_down", "cubic"_a = nb::none(), "exclude_outside"_a = false, "scales"_a = nb::none());
  op(
      m, "grid_sample",
      [](const Tensor& x, const Tensor& grid, Interpolation mode, GridPadding padding, bool align_corners) {
        return grid_sample(x, grid, {mode, padding, align_corners});
      },
      R"(Pictures x [N, H, W, C] at the places (x, y) of a grid [N, OH, OW, 2], each in -1 … 1: [N, OH, OW, C].

align_corners: -1 and 1 are the centres of the outermost elements, not their outer edges.

>>> x = vv.tensor([[1.0, 2.0], [3.0, 4.0]]).reshape(1, 2, 2, 1)
>>> vv.grid_sample(x, vv.zeros((1, 1, 1, 2))).item()
2.5)",
      "x"_a, "grid"_a, "mode"_a = "linear", "padding"_a = "zeros", "align_corners"_a = false);
  bind_volumes(m);
}

}  // namespace varve::python
