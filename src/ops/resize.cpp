// Resizing: each axis by itself, as a product with a matrix of weights or, where that would be mostly zeros, as a
// weighted sum of a few gathered elements. Gradients follow.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "ops/shared.h"
#include "varve/vision.h"

namespace varve {
namespace {

constexpr std::int64_t kMostPixels = 1 << 24;   // along an axis
constexpr std::int64_t kMostWeights = 1 << 26;  // of a matrix, or of an axis

// What one output element is made of: weights of input elements, as many for each.
struct Taps {
  std::int64_t in = 0, out = 0, each = 0;
  std::vector<std::int64_t> from;  // [out, each]
  std::vector<double> weights;

  bool is_identity() const {
    if (in != out) return false;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const bool own = from[i] == static_cast<std::int64_t>(i) / each;
      if (weights[i] != 0 && !own) return false;
    }
    return true;
  }
};

// Where the centre of output element i lies, in elements of the input.
double position(std::int64_t i, std::int64_t in, std::int64_t out, const ResizeOptions& o, double scale) {
  const auto at = static_cast<double>(i), size = static_cast<double>(in), wanted = static_cast<double>(out);
  switch (o.alignment) {
    case Alignment::align_corners:
      return out == 1 ? 0 : at * (size - 1) / (wanted - 1);
    case Alignment::asymmetric:
      return scale > 0 ? at / scale : at * size / wanted;
    case Alignment::half_pixel:
      break;
  }
  return (scale > 0 ? (at + 0.5) / scale : (at + 0.5) * size / wanted) - 0.5;
}

double rounded(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::half_up:
      return std::floor(x + 0.5);
    case Rounding::down:
      return std::floor(x);
    case Rounding::up:
      return std::ceil(x);
    case Rounding::half_down:
      break;
  }
  return std::ceil(x - 0.5);
}

// Keys' cubic with coefficient a, or the triangle.
double filter(double distance, Interpolation mode, double a) {
  const double t = std::abs(distance);
  if (mode == Interpolation::linear) return std::max(1 - t, 0.0);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

Taps nearest(std::int64_t in, std::int64_t out, const ResizeOptions& o, double scale) {
  Taps taps{in, out, 1, {}, std::vector<double>(static_cast<std::size_t>(out), 1.0)};
  for (std::int64_t i = 0; i < out; ++i) {
    const double at = rounded(position(i, in, out, o, scale), o.rounding);
    taps.from.push_back(static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(in - 1))));
  }
  return taps;
}

// A smaller picture with antialias widens the filter until it covers what one output element stands for.
Taps filtered(std::int64_t in, std::int64_t out, const ResizeOptions& o, double scale) {
  const double ratio = scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
  const double wider = o.antialias ? std::max(ratio, 1.0) : 1.0;
  const double a = o.cubic.value_or(o.antialias ? -0.5 : -0.75);
  const double support = (o.mode == Interpolation::linear ? 1 : 2) * wider;
  if (!(support <= static_cast<double>(kMostWeights)))
    throw Error(cat("resize: a scale of ", scale, " takes too many weights for each element; resize in two steps."));
  const bool drops = o.antialias || o.exclude_outside;
  Taps taps{in, out, 2 * static_cast<std::int64_t>(std::ceil(support)), {}, {}};
  if (Shape{out, taps.each}.numel() > kMostWeights)
    throw Error(cat("resize: ", in, " elements to ", out, " with antialias takes ", taps.each,
                    " weights for each; resize in two steps."));
  for (std::int64_t i = 0; i < out; ++i) {
    // Far outside, where scales can lead, there is the border alone.
    const double at = std::clamp(position(i, in, out, o, scale), -1 - support, static_cast<double>(in) + support);
    const auto first = static_cast<std::int64_t>(std::floor(at)) - taps.each / 2 + 1;
    double sum = 0;
    for (std::int64_t j = first; j < first + taps.each; ++j) {
      const double weight = drops && (j < 0 || j >= in) ? 0 : filter((at - static_cast<double>(j)) / wider, o.mode, a);
      taps.from.push_back(std::clamp<std::int64_t>(j, 0, in - 1));
      taps.weights.push_back(weight);
      sum += weight;
    }
    if (!drops || sum == 0) continue;
    for (auto w = taps.weights.end() - taps.each; w != taps.weights.end(); ++w) *w /= sum;
  }
  return taps;
}

// Tap number k of every output element.
template <class T>
std::vector<T> column(const std::vector<T>& values, std::int64_t each, std::int64_t k) {
  std::vector<T> result;
  for (std::size_t i = static_cast<std::size_t>(k); i < values.size(); i += static_cast<std::size_t>(each))
    result.push_back(values[i]);
  return result;
}

Tensor matrix_of(const Taps& taps, DType dtype) {
  std::vector<double> entries(static_cast<std::size_t>(taps.out * taps.in));
  for (std::size_t i = 0; i < taps.from.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / taps.each;
    entries[static_cast<std::size_t>(row * taps.in + taps.from[i])] += taps.weights[i];
  }
  return tensor(entries, {taps.out, taps.in}).to(dtype);
}

// x: [outer, in, inner] seen along the axis
Tensor product(const Tensor& x, const Taps& taps, int axis) {
  std::int64_t outer = 1, inner = 1;
  for (int a = 0; a < x.rank(); ++a) (a < axis ? outer : inner) *= a == axis ? 1 : x.dim(a);
  Shape shape = x.shape();
  shape[axis] = taps.out;
  const Tensor matrix = matrix_of(taps, x.dtype());
  if (inner == 1) return reshape(matmul(reshape(x, {outer, taps.in}), matrix, {.transpose_b = true}), shape);
  return reshape(matmul(matrix, reshape(x, {outer, taps.in, inner})), shape);
}

Tensor gathered(const Tensor& x, const Taps& taps, int axis) {
  Shape along;
  for (int a = axis; a < x.rank(); ++a) along.push_back(a == axis ? taps.out : 1);
  Tensor sum;
  for (std::int64_t k = 0; k < taps.each; ++k) {
    const Tensor from = tensor(column(taps.from, taps.each, k));
    const Tensor weight = tensor(column(taps.weights, taps.each, k)).to(x.dtype());
    const Tensor part = gather(x, from, axis) * reshape(weight, along);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

Tensor applied(const Tensor& x, const Taps& taps, int axis, Interpolation mode) {
  if (taps.is_identity()) return x;
  if (mode == Interpolation::nearest) return gather(x, tensor(taps.from), axis);
  constexpr std::int64_t kDense = 64;  // inputs for each weight, up to which a product is faster than gathers
  const bool fits = taps.in * taps.out <= kMostWeights;
  return fits && taps.in <= kDense * taps.each ? product(x, taps, axis) : gathered(x, taps, axis);
}

void check(const Tensor& x, const std::vector<std::int64_t>& sizes, const ResizeOptions& o) {
  if (x.rank() < 3 || x.rank() > 5)
    throw Error(cat("resize: takes [N, L, C], [N, H, W, C] or [N, D, H, W, C], got ", x.shape(), "."));
  const auto axes = static_cast<std::size_t>(x.rank() - 2);
  if (sizes.size() != axes || (!o.scales.empty() && o.scales.size() != axes))
    throw Error(cat("resize: ", x.shape(), " has ", axes, " axes between batch and channels; got ", sizes.size(),
                    " sizes and ", o.scales.size(), " scales."));
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t in = x.dim(static_cast<int>(i) + 1);
    if (sizes[i] < 1 || sizes[i] > kMostPixels || in < 1 || in > kMostPixels)
      throw Error(cat("resize: cannot make ", Shape(sizes), " of ", x.shape(),
                      ": sizes must be 1 or more, and no more "
                      "than 2^24."));
  }
  for (const double scale : o.scales)
    if (!(scale > 0) || !std::isfinite(scale))
      throw Error(cat("resize: a scale is ", scale, "; expected more than 0."));
  if (o.mode != Interpolation::nearest && !is_floating(x.dtype()))
    throw Error(cat("resize: only mode nearest takes ", x.dtype(), "; cast to f32 for the others."));
  if (o.mode == Interpolation::nearest && o.antialias)
    throw Error("resize: antialias is for the modes linear and cubic; nearest takes single elements.");
}

}  // namespace

Tensor resize(const Tensor& x, const std::vector<std::int64_t>& sizes, const ResizeOptions& options) {
  check(x, sizes, options);
  // What shrinks goes first: less is left for the other axes.
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto growth = [&](std::size_t i) {
    return static_cast<double>(sizes[i]) / static_cast<double>(x.dim(static_cast<int>(i) + 1));
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return growth(a) < growth(b); });
  const bool plain = options.mode == Interpolation::nearest;
  Tensor y = plain ? x : widened(x);
  for (const std::size_t i : order) {
    const int axis = static_cast<int>(i) + 1;
    const double scale = options.scales.empty() ? 0 : options.scales[i];
    const Taps taps =
        plain ? nearest(x.dim(axis), sizes[i], options, scale) : filtered(x.dim(axis), sizes[i], options, scale);
    y = applied(y, taps, axis, options.mode);
  }
  return y.to(x.dtype());
}

}  // namespace varve
