// Sampling a picture at the places of a grid: gathered elements times weights that depend on the place, so that
// gradients reach both picture and grid.
#include <array>

#include "base/text.h"
#include "ops/shared.h"
#include "varve/vision.h"

namespace varve {
namespace {

// One axis of the picture, and the coordinates along it: [N, OH, OW], in elements.
struct Coordinates {
  std::int64_t size;
  Tensor at;
};

// From -1 … 1 to elements.
Tensor in_elements(const Tensor& g, std::int64_t size, bool align_corners) {
  const auto n = static_cast<double>(size);
  return align_corners ? (g + 1) * ((n - 1) / 2) : (g + 1) * (n / 2) - 0.5;
}

// Mirrored at the outermost centres, or at the outer edges, as often as it takes.
Tensor reflected(const Tensor& at, std::int64_t size, bool align_corners) {
  const double low = align_corners ? 0 : -0.5, span = static_cast<double>(align_corners ? size - 1 : size);
  if (span == 0) return at * 0;
  const Tensor from_low = abs(at - low), turn = from_low % (2 * span);
  return minimum(turn, 2 * span - turn) + low;
}

Tensor padded(const Coordinates& c, const Tensor& at, const GridSampleOptions& o) {
  if (o.padding == GridPadding::zeros) return at;
  const Tensor inner = o.padding == GridPadding::reflection ? reflected(at, c.size, o.align_corners) : at;
  return clip(inner, 0.0, static_cast<double>(c.size - 1));
}

// Elements along one axis that a place is made of: each a coordinate that is a whole number, and its weight.
struct Tap {
  Tensor at, weight;  // no weight: 1
};

std::vector<Tap> nearest_taps(const Coordinates& c, const GridSampleOptions& o) {
  return {{round(padded(c, c.at, o)), {}}};
}

std::vector<Tap> linear_taps(const Coordinates& c, const GridSampleOptions& o) {
  const Tensor at = padded(c, c.at, o), first = stop_gradient(floor(at)), part = at - first;
  return {{first, 1.0 - part}, {first + 1, part}};
}

// Four weights of Keys' cubic with a = -0.75. Each element is padded by itself: the curve runs on beyond the border.
std::vector<Tap> cubic_taps(const Coordinates& c, const GridSampleOptions& o) {
  constexpr double a = -0.75;
  const Tensor first = stop_gradient(floor(c.at)), t = c.at - first;
  const auto near = [](const Tensor& d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](const Tensor& d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const std::array<Tensor, 4> weights = {far(t + 1), near(t), near(1.0 - t), far(2.0 - t)};
  std::vector<Tap> taps;
  for (int k = 0; k < 4; ++k)
    taps.push_back({round(padded(c, first + (k - 1), o)), weights[static_cast<std::size_t>(k)]});
  return taps;
}

std::vector<Tap> taps_of(const Coordinates& c, const GridSampleOptions& o) {
  if (o.mode == Interpolation::nearest) return nearest_taps(c, o);
  return o.mode == Interpolation::linear ? linear_taps(c, o) : cubic_taps(c, o);
}

// Whether an element is one of the picture, and its number, or 0.
std::pair<Tensor, Tensor> placed(const Tensor& at, std::int64_t size) {
  const Tensor inside = at >= 0.0 && at <= static_cast<double>(size - 1);
  return {inside, where(inside, at, 0.0).to(i64)};
}

void check(const Tensor& x, const Tensor& grid) {
  if (x.rank() != 4 || x.dim(1) < 1 || x.dim(2) < 1)
    throw Error(cat("grid_sample: takes pictures [N, H, W, C], got ", x.shape(), "."));
  if (grid.rank() != 4 || grid.dim(3) != 2 || grid.dim(0) != x.dim(0))
    throw Error(cat("grid_sample: the grid of pictures ", x.shape(), " must be [", x.dim(0),
                    ", H, W, 2], places (x, y) in -1 … 1; got ", grid.shape(), "."));
  if (!is_floating(x.dtype()) || !is_floating(grid.dtype()))
    throw Error(
        cat("grid_sample: takes floating pictures and grids, got ", x.type().str(), " and ", grid.type().str(), "."));
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  check(x, grid);
  const std::int64_t n = x.dim(0), height = x.dim(1), width = x.dim(2), channels = x.dim(3);
  const std::vector<Tensor> places = split(widened(grid), 2, 3);  // x, y
  const auto coordinates = [&](const Tensor& g, std::int64_t size) {
    return Coordinates{size, in_elements(squeeze(g, {3}), size, options.align_corners)};
  };
  const std::vector<Tap> across = taps_of(coordinates(places[0], width), options),
                         down = taps_of(coordinates(places[1], height), options);
  const std::int64_t pixels = Shape({height, width}).numel();  // an Error where there are too many
  const Tensor picture = reshape(arange(n), {n, 1, 1}) * pixels;
  const Tensor elements = reshape(widened(x), {Shape({n, pixels}).numel(), channels});
  Tensor sum;
  for (const Tap& y : down)
    for (const Tap& z : across) {
      const auto [y_inside, row] = placed(y.at, height);
      const auto [x_inside, column] = placed(z.at, width);
      const Tensor from = picture + row * width + column;
      const Tensor inside = expand_dims(y_inside && x_inside, 3);
      Tensor part = where(inside, gather(elements, from), zeros({}, elements.dtype()));
      if (y.weight.defined()) part = part * expand_dims((y.weight * z.weight).to(part.dtype()), 3);
      sum = sum.defined() ? sum + part : part;
    }
  return sum.to(x.dtype());
}

}  // namespace varve
