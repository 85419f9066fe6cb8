// The pooling functions that users call: options made explicit, and poolings that are composed of others.
#include <algorithm>

#include "base/text.h"
#include "ops/families.h"
#include "ops/pool.h"

namespace varve {
namespace {

void check_image(const std::string& op, const Tensor& x) {
  if (x.rank() != 4 || x.dim(1) < 1 || x.dim(2) < 1)
    throw Error(cat(op, ": the input must be images [N, H, W, channels], got ", x.shape(), "."));
}

// How a call's options look along one axis once ceil_mode is turned into padding after the input.
struct Axis {
  std::int64_t window, stride, before, after;
  std::int64_t overhang = 0;  // the part of `after` that ceil_mode added
};

// Ceil mode lets a last window hang over the end, if it starts inside the input or the padding before it.
void resolve_ceil(Axis& axis, std::int64_t size) {
  for (const std::int64_t value : {axis.window, axis.stride, axis.before, axis.after, size})
    if (value < 0 || value > pool::kMostSize) return;  // the operator refuses it
  if (axis.stride < 1) return;
  const std::int64_t room = size + axis.before + axis.after - axis.window;
  if (room + axis.stride <= 0) return;  // does not fit: the operator says so
  const std::int64_t start = (room + axis.stride - 1) / axis.stride * axis.stride;
  if (start <= room || start >= size + axis.before) return;
  axis.overhang = start - room;
  axis.after += axis.overhang;
}

std::pair<Axis, Axis> resolve(const std::string& op, const Tensor& x, const PoolOptions& o) {
  const Ints& stride = o.stride.empty() ? o.window : o.stride;
  if (o.window.size() != 2 || stride.size() != 2 || o.padding.size() != 2)
    throw Error(cat(op, ": window, stride and padding take two entries each (height, width), got ", o.window.size(),
                    ", ", stride.size(), " and ", o.padding.size(), "."));
  const Padding &high = o.padding[0], &wide = o.padding[1];
  std::pair<Axis, Axis> axes{{o.window[0], stride[0], high.before, high.after},
                             {o.window[1], stride[1], wide.before, wide.after}};
  if (!o.ceil_mode) return axes;
  check_image(op, x);
  resolve_ceil(axes.first, x.dim(1));
  resolve_ceil(axes.second, x.dim(2));
  return axes;
}

Attrs attrs_of(const Axis& high, const Axis& wide) {
  return {{"window", Ints{high.window, wide.window}},
          {"stride", Ints{high.stride, wide.stride}},
          {"padding", Ints{high.before, high.after, wide.before, wide.after}}};
}

// Counted padding ends where the user's ends: cells under the overhang of a last window are no part of its mean.
std::vector<double> overhang_factors(const Axis& axis, std::int64_t size, std::int64_t outputs) {
  std::vector<double> factors;
  const std::int64_t end = size + axis.before + axis.after - axis.overhang;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t counted = std::min(axis.window, end - i * axis.stride);
    factors.push_back(static_cast<double>(axis.window) / static_cast<double>(counted));
  }
  return factors;
}

Tensor as_floating(const Tensor& x) { return is_floating(x.dtype()) ? x : x.to(f32); }

// Window i of `outputs` over `size` elements, as evenly as can be; they overlap when the sizes do not divide.
Range adaptive_range(std::int64_t i, std::int64_t size, std::int64_t outputs) {
  return {i * size / outputs, ((i + 1) * size + outputs - 1) / outputs};
}

void check_adaptive(const std::string& op, const Tensor& x, std::int64_t height, std::int64_t width) {
  check_image(op, x);
  if (height < 1 || width < 1 || height > pool::kMostSize || width > pool::kMostSize || x.dim(1) > pool::kMostSize ||
      x.dim(2) > pool::kMostSize)
    throw Error(cat(op, ": the output size ", height, " × ", width, " must be 1 or more, and no size past 2^31."));
}

// Row i holds the weights of output i: a mean over its window.
Tensor averaging_matrix(std::int64_t size, std::int64_t outputs, DType dtype) {
  const std::int64_t entries = Shape{outputs, size}.numel();
  if (entries > pool::kMostSize)
    throw Error(cat("adaptive_avg_pool2d: ", outputs, " windows over ", size, " elements are too many."));
  std::vector<double> weights(static_cast<std::size_t>(entries));
  for (std::int64_t i = 0; i < outputs; ++i) {
    const Range range = adaptive_range(i, size, outputs);
    for (std::int64_t j = range.begin; j < range.end; ++j)
      weights[static_cast<std::size_t>(i * size + j)] = 1.0 / static_cast<double>(range.end - range.begin);
  }
  return tensor(weights, {outputs, size}).to(dtype);
}

// Maxima of adaptive windows along one axis of an image.
Tensor adaptive_max(const Tensor& x, std::int64_t axis, std::int64_t outputs) {
  const std::int64_t size = x.dim(static_cast<int>(axis));
  if (size == outputs) return x;
  std::vector<Tensor> parts;
  std::vector<Range> ranges(static_cast<std::size_t>(axis + 1));
  for (std::int64_t i = 0; i < outputs; ++i) {
    ranges.back() = adaptive_range(i, size, outputs);
    parts.push_back(max(slice(x, ranges), {.axes = Axes{axis}, .keep = true}));
  }
  return concat(parts, axis);
}

// Set when all windows are alike and do not overlap.
std::optional<PoolOptions> equal_windows(const Tensor& x, std::int64_t height, std::int64_t width) {
  if (x.dim(1) % height != 0 || x.dim(2) % width != 0) return std::nullopt;
  return PoolOptions{.window = {x.dim(1) / height, x.dim(2) / width}};
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const PoolOptions& options) {
  const auto [high, wide] = resolve("max_pool2d", x, options);
  return pool::max(x, attrs_of(high, wide));
}

Tensor avg_pool2d(const Tensor& x, const PoolOptions& options) {
  const auto [high, wide] = resolve("avg_pool2d", x, options);
  Attrs attrs = attrs_of(high, wide);
  attrs.set("count_padding", options.count_padding);
  const Tensor y = pool::average(as_floating(x), attrs);
  if (!options.count_padding || (high.overhang == 0 && wide.overhang == 0)) return y;
  const Tensor rows = tensor(overhang_factors(high, x.dim(1), y.dim(1)), {y.dim(1), 1, 1});
  const Tensor columns = tensor(overhang_factors(wide, x.dim(2), y.dim(2)), {y.dim(2), 1});
  return y * (rows * columns).to(y.dtype());
}

Tensor global_avg_pool2d(const Tensor& x) {
  check_image("global_avg_pool2d", x);
  return mean(x, {.axes = Axes{1, 2}});
}

Tensor global_max_pool2d(const Tensor& x) {
  check_image("global_max_pool2d", x);
  return max(x, {.axes = Axes{1, 2}});
}

Tensor adaptive_avg_pool2d(const Tensor& x, std::int64_t height, std::int64_t width) {
  check_adaptive("adaptive_avg_pool2d", x, height, width);
  if (const auto options = equal_windows(x, height, width)) return avg_pool2d(x, *options);
  const Tensor image = as_floating(x);
  const std::int64_t n = x.dim(0), h = x.dim(1), w = x.dim(2), c = x.dim(3);
  // [height, H] · [N, H, W·C], then [width, W] · [N, height, W, C]
  const Tensor rows = matmul(averaging_matrix(h, height, image.dtype()), image.reshape({n, h, Shape{w, c}.numel()}));
  return matmul(averaging_matrix(w, width, image.dtype()), rows.reshape({n, height, w, c}));
}

Tensor adaptive_max_pool2d(const Tensor& x, std::int64_t height, std::int64_t width) {
  check_adaptive("adaptive_max_pool2d", x, height, width);
  if (const auto options = equal_windows(x, height, width)) return max_pool2d(x, *options);
  return adaptive_max(adaptive_max(x, 1, height), 2, width);
}

std::vector<const OpRecord*> pool_ops() { return pool::ops(); }

}  // namespace varve
