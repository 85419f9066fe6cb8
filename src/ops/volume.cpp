// Convolution and pooling of volumes, channels last, by those of pictures: a convolution sees the planes under its
// kernel as channels, a pooling goes over planes and then over depth.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "ops/shared.h"
#include "varve/vision.h"

namespace varve {
namespace {

constexpr std::int64_t kMostSide = std::int64_t{1} << 31;

// How a window moves along depth, height and width.
struct Windows {
  Ints size, stride, dilation;
  std::vector<Padding> padding;
};

// Where an axis is empty the others may be anything: their products must be sizes all the same.
void check_count(const Shape& shape) {
  Shape full = shape;
  for (int a = 0; a < full.rank(); ++a) full[a] = std::max<std::int64_t>(full[a], 1);
  full.numel();
}

void check_volume(const char* op, const Tensor& x) {
  if (x.rank() != 5 || x.dim(1) < 1 || x.dim(2) < 1 || x.dim(3) < 1)
    throw Error(cat(op, ": takes volumes [N, D, H, W, channels], got ", x.shape(), "."));
  check_count(x.shape());
}

void check_windows(const char* op, const Tensor& x, const Windows& w) {
  check_volume(op, x);
  if (w.size.size() != 3 || w.stride.size() != 3 || w.dilation.size() != 3 || w.padding.size() != 3)
    throw Error(cat(op, ": window, stride, padding and dilation take three entries each (depth, height, width)."));
  constexpr std::array<const char*, 3> kSides = {"deep", "high", "wide"};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t size = x.dim(static_cast<int>(i) + 1), before = w.padding[i].before, after = w.padding[i].after;
    for (const std::int64_t least : {w.size[i], w.stride[i], w.dilation[i]})
      if (least < 1 || least > kMostSide)
        throw Error(cat(op, ": window ", Shape(w.size), ", stride ", Shape(w.stride), " and dilation ",
                        Shape(w.dilation), " must be 1 or more, and no size past 2^31."));
    if (before < 0 || after < 0 || before > kMostSide || after > kMostSide || size > kMostSide)
      throw Error(cat(op, ": padding ", before, " and ", after, " must be 0 or more, and no size past 2^31."));
    const std::int64_t reach = (w.size[i] - 1) * w.dilation[i] + 1, room = size + before + after;
    if (reach > room)
      throw Error(cat(op, ": a window ", reach, " ", kSides[i], " does not fit the input ", x.shape(), ", ", room, " ",
                      kSides[i], " with its padding."));
  }
}

void check_weights(const Tensor& x, const Tensor& w, std::int64_t groups) {
  if (w.rank() != 5) throw Error(cat("conv3d: weights must be [O, KD, KH, KW, I / groups], got ", w.shape(), "."));
  if (groups < 1 || x.dim(4) % groups != 0 || w.dim(0) % groups != 0 || w.dim(4) != x.dim(4) / groups)
    throw Error(cat("conv3d: weights ", w.shape(), " do not fit ", x.shape(), " in ", groups,
                    " groups: expected [O, KD, KH, KW, ", x.dim(4), " / groups]."));
}

// x [N,D,H,W,I] with the planes under each place of the kernel's depth as channels: [N·OD, H, W, groups·KD·I/groups]
Tensor planes_as_channels(const Tensor& x, const Windows& w, std::int64_t groups) {
  const Padding& ends = w.padding[0];
  const Tensor deep =
      ends.before || ends.after ? pad(x, {{0, 0}, {ends.before, ends.after}, {0, 0}, {0, 0}, {0, 0}}) : x;
  const std::int64_t planes = w.size[0], step = w.dilation[0], stride = w.stride[0];
  const std::int64_t depth = (deep.dim(1) - (planes - 1) * step - 1) / stride + 1, in = x.dim(4);
  const Shape grouped = {x.dim(0), depth, x.dim(2), x.dim(3), groups, in / groups};
  std::vector<Tensor> parts;
  for (std::int64_t k = 0; k < planes; ++k) {
    const std::int64_t first = k * step;
    parts.push_back(reshape(slice(deep, {{}, {first, first + (depth - 1) * stride + 1, stride}}), grouped));
  }
  return reshape(concat(parts, 5), {x.dim(0) * depth, x.dim(2), x.dim(3), planes * in});
}

// ---- pooling

using PlanePool = Tensor (*)(const Tensor& x, const PoolOptions& options);

// Over planes, then over depth: maxima of maxima, and means of means since a window's size is a product of its sides.
Tensor pool(const char* op, const Tensor& x, const Pool3dOptions& o, PlanePool pool_planes) {
  const Ints& stride = o.stride.empty() ? o.window : o.stride;
  check_windows(op, x, {o.window, stride, {1, 1, 1}, o.padding});
  for (std::size_t i = 0; i < 3; ++i)
    if (o.padding[i].before >= o.window[i] || o.padding[i].after >= o.window[i])
      throw Error(cat(op, ": padding must be smaller than the window ", Shape(o.window),
                      ": a window of padding alone has no value."));
  const std::int64_t n = x.dim(0), depth = x.dim(1);
  const Tensor planes =
      pool_planes(reshape(x, {n * depth, x.dim(2), x.dim(3), x.dim(4)}), {.window = {o.window[1], o.window[2]},
                                                                          .stride = {stride[1], stride[2]},
                                                                          .padding = {o.padding[1], o.padding[2]},
                                                                          .count_padding = o.count_padding,
                                                                          .ceil_mode = o.ceil_mode});
  const std::int64_t height = planes.dim(1), width = planes.dim(2), channels = planes.dim(3);
  const Tensor y = pool_planes(reshape(planes, {n, depth, height * width, channels}), {.window = {o.window[0], 1},
                                                                                       .stride = {stride[0], 1},
                                                                                       .padding = {o.padding[0], 0},
                                                                                       .count_padding = o.count_padding,
                                                                                       .ceil_mode = o.ceil_mode});
  return reshape(y, {n, y.dim(1), height, width, channels});
}

using AdaptivePool = Tensor (*)(const Tensor& x, std::int64_t height, std::int64_t width);

Tensor adaptive_pool(const char* op, const Tensor& x, std::int64_t depth, std::int64_t height, std::int64_t width,
                     AdaptivePool pool_planes) {
  check_volume(op, x);
  for (const std::int64_t size : {depth, height, width})
    if (size < 1 || size > kMostSide)
      throw Error(
          cat(op, ": the output size ", Shape{depth, height, width}, " must be 1 or more, and no size past 2^31."));
  const std::int64_t n = x.dim(0), channels = x.dim(4);
  check_count({n, std::max(depth, x.dim(1)), height, width, channels});
  const Tensor planes = pool_planes(reshape(x, {n * x.dim(1), x.dim(2), x.dim(3), channels}), height, width);
  const Tensor y = pool_planes(reshape(planes, {n, x.dim(1), 1, height * width * channels}), depth, 1);
  return reshape(y, {n, depth, height, width, channels});
}

}  // namespace

Tensor conv3d(const Tensor& x, const Tensor& w, const Conv3dOptions& o) {
  check_volume("conv3d", x);
  check_weights(x, w, o.groups);
  const Windows windows{{w.dim(1), w.dim(2), w.dim(3)}, o.stride, o.dilation, o.padding};
  check_windows("conv3d", x, windows);
  const Tensor planes = planes_as_channels(x, windows, o.groups);
  const Tensor kernel = reshape(transpose(w, {0, 2, 3, 1, 4}), {w.dim(0), w.dim(2), w.dim(3), w.dim(1) * w.dim(4)});
  const Tensor y = conv2d(planes, kernel,
                          {.stride = {o.stride[1], o.stride[2]},
                           .padding = {o.padding[1], o.padding[2]},
                           .dilation = {o.dilation[1], o.dilation[2]},
                           .groups = o.groups});
  const std::int64_t reach = (w.dim(1) - 1) * o.dilation[0] + 1;
  const std::int64_t depth = (x.dim(1) + o.padding[0].before + o.padding[0].after - reach) / o.stride[0] + 1;
  return reshape(y, {x.dim(0), depth, y.dim(1), y.dim(2), y.dim(3)});
}

Tensor max_pool3d(const Tensor& x, const Pool3dOptions& options) { return pool("max_pool3d", x, options, max_pool2d); }
Tensor avg_pool3d(const Tensor& x, const Pool3dOptions& options) { return pool("avg_pool3d", x, options, avg_pool2d); }

Tensor global_avg_pool3d(const Tensor& x) {
  check_volume("global_avg_pool3d", x);
  return mean(x, {.axes = Axes{1, 2, 3}});
}
Tensor global_max_pool3d(const Tensor& x) {
  check_volume("global_max_pool3d", x);
  return max(x, {.axes = Axes{1, 2, 3}});
}

Tensor adaptive_avg_pool3d(const Tensor& x, std::int64_t depth, std::int64_t height, std::int64_t width) {
  return adaptive_pool("adaptive_avg_pool3d", x, depth, height, width, adaptive_avg_pool2d);
}
Tensor adaptive_max_pool3d(const Tensor& x, std::int64_t depth, std::int64_t height, std::int64_t width) {
  return adaptive_pool("adaptive_max_pool3d", x, depth, height, width, adaptive_max_pool2d);
}

}  // namespace varve
