// Resizing, sampling, and convolution and pooling of volumes, element by element.
#include <algorithm>
#include <cmath>

#include "ops/row.h"
#include "varve/vision.h"

namespace varve::test {
namespace {

using Place = std::vector<std::int64_t>;

// ---- resize

double triangle(double t) { return std::max(0.0, 1 - std::abs(t)); }
double keys(double t, double a) {
  const double d = std::abs(t);
  if (d < 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

double source(std::int64_t i, std::int64_t in, std::int64_t out, const ResizeOptions& o) {
  const double x = static_cast<double>(i), ratio = static_cast<double>(in) / static_cast<double>(out);
  if (o.alignment == Alignment::align_corners)
    return out > 1 ? x * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  return o.alignment == Alignment::asymmetric ? x * ratio : (x + 0.5) * ratio - 0.5;
}

// Weights of all input elements for one output element.
std::vector<double> weights_of(std::int64_t i, std::int64_t in, std::int64_t out, const ResizeOptions& o) {
  std::vector<double> weights(static_cast<std::size_t>(in));
  const double at = source(i, in, out, o);
  const auto add = [&](double j, double weight) {
    weights[static_cast<std::size_t>(std::clamp(j, 0.0, static_cast<double>(in - 1)))] += weight;
  };
  if (o.mode == Interpolation::nearest) {
    add(o.rounding == Rounding::down      ? std::floor(at)
        : o.rounding == Rounding::half_up ? std::floor(at + 0.5)
                                          : std::ceil(at - 0.5),
        1);
    return weights;
  }
  const bool linear = o.mode == Interpolation::linear;
  if (o.antialias || o.exclude_outside) {
    const double wide = o.antialias ? std::max(1.0, static_cast<double>(in) / static_cast<double>(out)) : 1;
    double total = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const double t = (static_cast<double>(j) - at) / wide;
      weights[j] = linear ? triangle(t) : keys(t, o.antialias ? -0.5 : -0.75);
      total += weights[j];
    }
    for (double& w : weights) w /= total;
    return weights;
  }
  const double first = std::floor(at);
  for (double j = first - 1; j <= first + 2; ++j) add(j, linear ? triangle(at - j) : keys(at - j, -0.75));
  return weights;
}

Doubles resized(Doubles x, const std::vector<std::int64_t>& sizes, const ResizeOptions& o) {
  for (std::size_t axis = 1; axis <= sizes.size(); ++axis) {
    Shape shape = x.shape;
    shape[static_cast<int>(axis)] = sizes[axis - 1];
    Doubles y = doubles(shape);
    const std::int64_t in = x.shape[static_cast<int>(axis)];
    each_index(shape, [&](const Place& index) {
      const std::vector<double> weights = weights_of(index[axis], in, sizes[axis - 1], o);
      double& sum = y.data[static_cast<std::size_t>(offset(shape, index))];
      Place from = index;
      for (from[axis] = 0; from[axis] < in; ++from[axis])
        if (const double w = weights[static_cast<std::size_t>(from[axis])]; w != 0) sum += w * at(x, from);
    });
    x = std::move(y);
  }
  return x;
}

Row resize_row(const std::string& label, const ResizeOptions& o, std::vector<std::int64_t> sizes,
               std::vector<std::vector<Shape>> shapes) {
  Row row{.op = "resize",
          .label = label,
          .call = [=](const Tensors& in) { return resize(in[0], sizes, o); },
          .oracle = [=](const DoublesList& in) { return resized(in[0], sizes, o); },
          .shapes = std::move(shapes),
          .terms = 64,
          .magnitude = [=](const DoublesList& in) { return doubles(resized(in[0], sizes, o).shape, 6); },
          .roundings = 2};
  if (o.mode == Interpolation::nearest) {
    row.types = kEveryType;
    row.terms = 1;
    row.magnitude = {};
    row.bitwise = true;
  }
  return row;
}

std::vector<Row> resize_rows() {
  const ResizeOptions nearest{.mode = Interpolation::nearest}, cubic{.mode = Interpolation::cubic};
  const auto with = [](ResizeOptions o, Alignment alignment) {
    o.alignment = alignment;
    return o;
  };
  ResizeOptions floored = with(nearest, Alignment::asymmetric), exact = nearest, outside = cubic;
  floored.rounding = Rounding::down;
  exact.rounding = Rounding::half_up;
  outside.exclude_outside = true;
  const std::vector<std::vector<Shape>> pictures = {{{2, 4, 5, 3}}, {{1, 9, 3, 1}}, {{0, 4, 5, 2}}};
  const std::vector<std::vector<Shape>> large = {{{1, 23, 17, 2}}};
  std::vector<Row> rows = {
      resize_row("linear", {}, {7, 3}, pictures),
      resize_row("linearCorners", {.alignment = Alignment::align_corners}, {7, 3}, pictures),
      resize_row("linearCornersOne", {.alignment = Alignment::align_corners}, {1, 8}, pictures),
      resize_row("linearAsymmetric", {.alignment = Alignment::asymmetric}, {8, 10}, pictures),
      resize_row("linearAntialias", {.antialias = true}, {3, 6}, large),
      resize_row("cubic", cubic, {7, 3}, pictures),
      resize_row("cubicCorners", with(cubic, Alignment::align_corners), {7, 9}, pictures),
      resize_row("cubicOutside", outside, {7, 9}, pictures),
      resize_row("cubicAntialias", {.mode = Interpolation::cubic, .antialias = true}, {5, 20}, large),
      resize_row("nearest", nearest, {7, 3}, pictures),
      resize_row("nearestFloor", floored, {7, 11}, pictures),
      resize_row("nearestExact", exact, {6, 2}, pictures),
      resize_row("signal", {}, {11}, {{{2, 4, 3}}}),
      resize_row("volume", cubic, {4, 5, 2}, {{{1, 3, 2, 4, 2}}}),
      resize_row("longLinear", {}, {70}, {{{1, 200, 2}}}),  // by gathers: few weights among many elements
  };
  rows.back().gradient_shapes = {{{1, 140, 1}}};
  return rows;
}

// ---- grid_sample, as PyTorch defines it

double unnormalized(double g, std::int64_t size, bool corners) {
  const double n = static_cast<double>(size);
  return corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
}

double mirrored(double x, double low, double high) {
  if (high == low) return 0;
  const double span = high - low;
  double away = std::abs(x - low);
  const double turns = std::floor(away / span);
  away -= turns * span;
  return std::fmod(turns, 2) == 0 ? low + away : high - away;
}

double bounded(double x, std::int64_t size, const GridSampleOptions& o) {
  const double last = static_cast<double>(size - 1);
  if (o.padding == GridPadding::zeros) return x;
  if (o.padding == GridPadding::reflection) x = o.align_corners ? mirrored(x, 0, last) : mirrored(x, -0.5, last + 0.5);
  return std::clamp(x, 0.0, last);
}

double sampled(const Doubles& image, std::int64_t n, std::int64_t channel, double x, double y,
               const GridSampleOptions& o) {
  const std::int64_t high = image.shape[1], wide = image.shape[2];
  const auto value = [&](double column, double line) {
    if (line < 0 || line > static_cast<double>(high - 1) || column < 0 || column > static_cast<double>(wide - 1))
      return 0.0;
    return at(image, {n, static_cast<std::int64_t>(line), static_cast<std::int64_t>(column), channel});
  };
  x = unnormalized(x, wide, o.align_corners);
  y = unnormalized(y, high, o.align_corners);
  double sum = 0;
  if (o.mode == Interpolation::cubic) {
    const double left = std::floor(x), top = std::floor(y);
    for (double r = top - 1; r <= top + 2; ++r)
      for (double c = left - 1; c <= left + 2; ++c)
        sum += keys(y - r, -0.75) * keys(x - c, -0.75) *
               value(std::nearbyint(bounded(c, wide, o)), std::nearbyint(bounded(r, high, o)));
    return sum;
  }
  x = bounded(x, wide, o);
  y = bounded(y, high, o);
  if (o.mode == Interpolation::nearest) return value(std::nearbyint(x), std::nearbyint(y));
  const double left = std::floor(x), top = std::floor(y);
  for (double r = top; r <= top + 1; ++r)
    for (double c = left; c <= left + 1; ++c) sum += triangle(y - r) * triangle(x - c) * value(c, r);
  return sum;
}

Doubles all_sampled(const DoublesList& in, const GridSampleOptions& o) {
  Doubles y = doubles({in[0].shape[0], in[1].shape[1], in[1].shape[2], in[0].shape[3]});
  std::size_t next = 0;
  each_index(y.shape, [&](const Place& i) {
    y.data[next++] = sampled(in[0], i[0], i[3], at(in[1], {i[0], i[1], i[2], 0}), at(in[1], {i[0], i[1], i[2], 1}), o);
  });
  return y;
}

Row grid_row(const std::string& label, const GridSampleOptions& o) {
  return {.op = "grid_sample",
          .label = label,
          .call = [o](const Tensors& in) { return grid_sample(in[0], in[1], o); },
          .oracle = [o](const DoublesList& in) { return all_sampled(in, o); },
          .shapes = {{{2, 4, 5, 3}, {2, 3, 2, 2}}, {{1, 1, 3, 2}, {1, 4, 1, 2}}, {{0, 2, 2, 1}, {0, 3, 3, 2}}},
          .ranges = {{1, {-1.4, 1.4}}},
          .types = {f32, f64},
          .terms = 16,
          // A place is rounded in f32 before the picture is read there: a few ε of the size times its slope.
          .magnitude = [o](const DoublesList& in) { return doubles(all_sampled(in, o).shape, 12); },
          .differentiable = o.mode == Interpolation::nearest ? std::vector<int>{0} : std::vector<int>{0, 1},
          .gradient_shapes = {{{2, 4, 5, 2}, {2, 3, 2, 2}}, {{1, 1, 3, 2}, {1, 4, 1, 2}}}};
}

std::vector<Row> grid_rows() {
  std::vector<Row> rows;
  const std::pair<const char*, Interpolation> modes[] = {
      {"nearest", Interpolation::nearest}, {"linear", Interpolation::linear}, {"cubic", Interpolation::cubic}};
  const std::pair<const char*, GridPadding> paddings[] = {
      {"Zeros", GridPadding::zeros}, {"Border", GridPadding::border}, {"Reflection", GridPadding::reflection}};
  for (const auto& [mode_name, mode] : modes)
    for (const auto& [padding_name, padding] : paddings)
      for (const bool corners : {false, true}) {
        const std::string label = std::string(mode_name) + padding_name + (corners ? "Corners" : "");
        rows.push_back(grid_row(label, {mode, padding, corners}));
        rows.back().gradient = mode != Interpolation::cubic || padding != GridPadding::border;
        rows.back().second = mode == Interpolation::linear && padding == GridPadding::zeros;
      }
  return rows;
}

// ---- volumes

Doubles convolved(const DoublesList& in, const Conv3dOptions& o) {
  const Shape &x = in[0].shape, &w = in[1].shape;
  Place sizes = {x[0]};
  for (std::size_t a = 0; a < 3; ++a) {
    const int axis = static_cast<int>(a) + 1;
    sizes.push_back(
        (x[axis] + o.padding[a].before + o.padding[a].after - o.dilation[a] * (w[axis] - 1) - 1) / o.stride[a] + 1);
  }
  sizes.push_back(w[0]);
  Doubles y = doubles(Shape(sizes));
  const std::int64_t per_group = w[0] / o.groups;
  std::size_t next = 0;
  each_index(y.shape, [&](const Place& i) {
    double sum = 0;
    each_index(Shape{w[1], w[2], w[3], w[4]}, [&](const Place& k) {
      Place from = {i[0]};
      for (std::size_t a = 0; a < 3; ++a)
        from.push_back(i[a + 1] * o.stride[a] - o.padding[a].before + k[a] * o.dilation[a]);
      for (int a = 1; a <= 3; ++a)
        if (from[static_cast<std::size_t>(a)] < 0 || from[static_cast<std::size_t>(a)] >= x[a]) return;
      from.push_back(i[4] / per_group * w[4] + k[3]);
      sum += at(in[0], from) * at(in[1], {i[4], k[0], k[1], k[2], k[3]});
    });
    y.data[next++] = sum;
  });
  return y;
}

Row conv3d_row(const std::string& label, const Conv3dOptions& o, std::vector<std::vector<Shape>> shapes) {
  return {
      .op = "conv3d",
      .label = label,
      .call = [o](const Tensors& in) { return conv3d(in[0], in[1], o); },
      .oracle = [o](const DoublesList& in) { return convolved(in, o); },
      .shapes = std::move(shapes),
      .types = {f32, f64},
      .terms = [](const std::vector<Shape>& s) { return static_cast<double>(s[1][1] * s[1][2] * s[1][3] * s[1][4]); },
      .slack = 2};  // the fast convolutions transform before they multiply
}

using Fold3d = std::function<double(const std::vector<double>& values, double window)>;

Doubles pooled3d(const Doubles& x, const Pool3dOptions& o, const Fold3d& fold) {
  const Place& stride = o.stride.empty() ? o.window : o.stride;
  Place sizes = {x.shape[0]};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t size = x.shape[static_cast<int>(a) + 1],
                       room = size + o.padding[a].before + o.padding[a].after - o.window[a];
    std::int64_t outputs = room / stride[a] + 1;
    if (o.ceil_mode && outputs * stride[a] < room + stride[a] && outputs * stride[a] < size + o.padding[a].before)
      ++outputs;
    sizes.push_back(outputs);
  }
  sizes.push_back(x.shape[4]);
  Doubles y = doubles(Shape(sizes));
  std::size_t next = 0;
  each_index(y.shape, [&](const Place& i) {
    std::vector<double> values;
    double window = 1;
    for (std::size_t a = 0; a < 3; ++a)
      window *= static_cast<double>(std::min(o.window[a], x.shape[static_cast<int>(a) + 1] + o.padding[a].before +
                                                              o.padding[a].after - i[a + 1] * stride[a]));
    each_index(Shape(o.window), [&](const Place& k) {
      Place from = {i[0]};
      for (std::size_t a = 0; a < 3; ++a) from.push_back(i[a + 1] * stride[a] - o.padding[a].before + k[a]);
      for (int a = 1; a <= 3; ++a)
        if (from[static_cast<std::size_t>(a)] < 0 || from[static_cast<std::size_t>(a)] >= x.shape[a]) return;
      from.push_back(i[4]);
      values.push_back(at(x, from));
    });
    y.data[next++] = fold(values, window);
  });
  return y;
}

double largest_in(const std::vector<double>& values, double) { return *std::max_element(values.begin(), values.end()); }
double mean_over(const std::vector<double>& values, double count) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / count;
}

Row pool3d_row(const std::string& label, bool largest, const Pool3dOptions& o, std::vector<std::vector<Shape>> shapes) {
  const Fold3d fold = largest           ? Fold3d(largest_in)
                      : o.count_padding ? Fold3d(mean_over)
                                        : Fold3d([](const std::vector<double>& values, double) {
                                            return mean_over(values, static_cast<double>(values.size()));
                                          });
  return {.op = largest ? "max_pool3d" : "avg_pool3d",
          .label = label,
          .call = [=](const Tensors& in) { return largest ? max_pool3d(in[0], o) : avg_pool3d(in[0], o); },
          .oracle = [=](const DoublesList& in) { return pooled3d(in[0], o, fold); },
          .shapes = std::move(shapes),
          .types = {f32, f64, bf16},
          .distinct = largest,
          .terms = largest ? 1 : 64,
          .roundings = largest ? 0 : 3};
}

// Windows of adaptive pooling along one axis.
std::pair<std::int64_t, std::int64_t> adaptive_window(std::int64_t i, std::int64_t size, std::int64_t outputs) {
  return {i * size / outputs, ((i + 1) * size + outputs - 1) / outputs};
}

Row adaptive_row(bool largest, const Place& wanted) {
  return {
      .op = largest ? "adaptive_max_pool3d" : "adaptive_avg_pool3d",
      .call =
          [=](const Tensors& in) {
            return largest ? adaptive_max_pool3d(in[0], wanted[0], wanted[1], wanted[2])
                           : adaptive_avg_pool3d(in[0], wanted[0], wanted[1], wanted[2]);
          },
      .oracle =
          [=](const DoublesList& in) {
            Doubles y = doubles({in[0].shape[0], wanted[0], wanted[1], wanted[2], in[0].shape[4]});
            std::size_t next = 0;
            each_index(y.shape, [&](const Place& i) {
              Place low, sizes;
              for (std::size_t a = 0; a < 3; ++a) {
                const auto [begin, end] = adaptive_window(i[a + 1], in[0].shape[static_cast<int>(a) + 1], wanted[a]);
                low.push_back(begin);
                sizes.push_back(end - begin);
              }
              std::vector<double> values;
              each_index(Shape(sizes), [&](const Place& k) {
                values.push_back(at(in[0], {i[0], low[0] + k[0], low[1] + k[1], low[2] + k[2], i[4]}));
              });
              y.data[next++] = largest ? largest_in(values, 0) : mean_over(values, static_cast<double>(values.size()));
            });
            return y;
          },
      .shapes = {{{2, 4, 6, 5, 3}}, {{1, 3, 3, 3, 1}}},
      .types = {f32, f64},
      .distinct = largest,
      .terms = largest ? 1 : 64};
}

std::vector<Row> volume_rows() {
  const std::vector<std::vector<Shape>> volumes = {{{2, 5, 4, 6, 3}}, {{1, 3, 3, 3, 1}}, {{0, 3, 4, 3, 2}}};
  const Pool3dOptions overlapping{.window = {3, 2, 3}, .stride = {2, 1, 2}, .padding = {1, {0, 1}, 1}};
  Pool3dOptions counted = overlapping, ceiled = overlapping;
  counted.count_padding = true;
  ceiled.ceil_mode = true;
  const auto global = [](bool largest) {
    return Row{.op = largest ? "global_max_pool3d" : "global_avg_pool3d",
               .call = [=](const Tensors& in) { return largest ? global_max_pool3d(in[0]) : global_avg_pool3d(in[0]); },
               .oracle =
                   [=](const DoublesList& in) {
                     const Shape& s = in[0].shape;
                     Doubles y = pooled3d(in[0], {.window = {s[1], s[2], s[3]}}, largest ? largest_in : mean_over);
                     y.shape = {s[0], s[4]};
                     return y;
                   },
               .shapes = {{{2, 3, 2, 4, 3}}},
               .types = {f32, f64},
               .distinct = largest,
               .terms = largest ? 1 : 24};
  };
  return {
      conv3d_row(
          "", {},
          {{{2, 4, 5, 4, 3}, {4, 2, 3, 2, 3}}, {{1, 3, 3, 3, 1}, {2, 3, 3, 3, 1}}, {{0, 2, 3, 3, 2}, {3, 1, 1, 1, 2}}}),
      conv3d_row("padded", {.stride = {2, 1, 2}, .padding = {1, {0, 2}, 1}}, {{{1, 4, 3, 5, 2}, {3, 3, 3, 3, 2}}}),
      conv3d_row("dilated", {.padding = {2, 1, 0}, .dilation = {2, 1, 2}}, {{{1, 4, 3, 5, 2}, {3, 3, 3, 2, 2}}}),
      conv3d_row("grouped", {.groups = 2}, {{{1, 4, 3, 3, 4}, {6, 2, 2, 3, 2}}}),
      conv3d_row("depthwise", {.padding = {1, 1, 1}, .groups = 3}, {{{2, 3, 4, 3, 3}, {3, 3, 3, 3, 1}}}),
      pool3d_row("", true, {}, volumes),
      pool3d_row("overlapping", true, overlapping, volumes),
      pool3d_row("ceil", true, ceiled, volumes),
      pool3d_row("", false, {}, volumes),
      pool3d_row("overlapping", false, overlapping, volumes),
      pool3d_row("counted", false, counted, volumes),
      global(true),
      global(false),
      adaptive_row(true, {3, 2, 3}),
      adaptive_row(false, {3, 2, 3})};
}

}  // namespace

std::vector<Row> vision_rows() {
  std::vector<Row> rows;
  for (auto family : {resize_rows, grid_rows, volume_rows}) {
    const std::vector<Row> part = family();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace varve::test
