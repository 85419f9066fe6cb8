// Resizing and sampling against PyTorch 2.15's numbers in float64: weighted sums of results, and norms of gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "base/text.h"
#include "ops/row.h"
#include "varve/autodiff.h"
#include "varve/vision.h"

namespace varve::test {
namespace {

Tensor sines(const Shape& shape, double step) { return sin(arange(shape.numel()).to(f64) * step).reshape(shape); }

// Σ y·cos(0.3 i), Σ y²
std::pair<double, double> fingerprint(const Tensor& y) {
  const Tensor weights = cos(arange(y.numel()).to(f64) * 0.3);
  return {sum(y.reshape({y.numel()}) * weights).item<double>(), sum(y * y).item<double>()};
}

Tensor wave_picture() { return sines({1, 5, 6, 2}, 0.7); }

void expect_print(const Tensor& y, double weighted, double squares, const std::string& what) {
  const auto [w, s] = fingerprint(y);
  EXPECT_NEAR(w, weighted, 1e-9) << what;
  EXPECT_NEAR(s, squares, 1e-9) << what;
}

TEST(Vision, ResizesAsPyTorch) {
  using enum Interpolation;
  const ResizeOptions floored{.mode = nearest, .alignment = Alignment::asymmetric, .rounding = Rounding::down},
      exact{.mode = nearest, .rounding = Rounding::half_up}, corners{.alignment = Alignment::align_corners},
      bicubic{.mode = cubic}, bicubic_corners{.mode = cubic, .alignment = Alignment::align_corners},
      smooth{.antialias = true}, smooth_cubic{.mode = cubic, .antialias = true};
  const struct {
    const char* name;
    ResizeOptions options;
    double first[2], second[2];  // of sizes 7×4 and 3×9
  } cases[] = {
      {"nearest", floored, {3.196907857540, 28.265779730345}, {1.355098877796, 23.340267240378}},
      {"nearest-exact", exact, {-0.717963846072, 25.474297203223}, {4.332192077930, 26.994046948422}},
      {"bilinear", {}, {0.346284644371, 11.541506810508}, {0.641735192181, 12.571493562254}},
      {"bilinear corners", corners, {0.224377758978, 13.804289470497}, {1.571985231689, 20.334555640935}},
      {"bicubic", bicubic, {0.400753600794, 20.752266840387}, {0.641499499019, 17.509525624590}},
      {"bicubic corners", bicubic_corners, {0.234719560859, 22.337607826344}, {1.734228499009, 25.983041259403}},
      {"bilinear antialias", smooth, {0.544172253817, 8.816296173572}, {0.066789140012, 4.766588347525}},
      {"bicubic antialias", smooth_cubic, {0.561333204875, 14.692125527610}, {0.060556992117, 5.858103833450}},
  };
  for (const auto& c : cases) {
    expect_print(resize(wave_picture(), {7, 4}, c.options), c.first[0], c.first[1], c.name);
    expect_print(resize(wave_picture(), {3, 9}, c.options), c.second[0], c.second[1], c.name);
  }
  expect_print(resize(wave_picture(), {8, 3}, {.scales = {1.7, 0.6}}), 0.268385012347, 9.966701747565, "scales");
}

TEST(Vision, SamplesAsPyTorch) {
  const struct {
    Interpolation mode;
    GridPadding padding;
    bool corners;
    double weighted, squares, picture_slope, grid_slope;
  } cases[] = {
      {Interpolation::nearest, GridPadding::zeros, false, 0.427843553982, 0.636639581365, 2.546558325461, 0},
      {Interpolation::nearest, GridPadding::border, false, -2.767754089321, 7.983584502328, 35.864076653307, 0},
      {Interpolation::nearest, GridPadding::reflection, true, -3.257698676924, 11.864159929950, 50.183090774100, 0},
      {Interpolation::linear, GridPadding::zeros, false, -0.783501688694, 0.619326289053, 0.512554847444,
       8.461404931937},
      {Interpolation::linear, GridPadding::zeros, true, -3.422560953911, 2.247274606919, 2.456005884318,
       62.884491324534},
      {Interpolation::linear, GridPadding::border, false, -4.366376352526, 4.578442605190, 12.598876987287,
       71.070896966048},
      {Interpolation::linear, GridPadding::border, true, -5.683807928305, 5.241928937753, 12.818725792299,
       114.321153125549},
      {Interpolation::linear, GridPadding::reflection, false, -3.998050056023, 3.812528458862, 8.582251891385,
       103.023618277410},
      {Interpolation::linear, GridPadding::reflection, true, -2.721576379457, 3.343594164436, 4.754067261234,
       81.725513547411},
      {Interpolation::cubic, GridPadding::zeros, false, -1.047617256692, 1.868188498598, 3.460179389520,
       67.182084114591},
      {Interpolation::cubic, GridPadding::border, true, -8.304257803543, 10.510281028671, 41.546969737272,
       363.616947053438},
      {Interpolation::cubic, GridPadding::reflection, false, -6.229013920078, 8.606861471629, 34.232935085152,
       464.834264565820},
  };
  const Tensor x = wave_picture(), grid = sines({1, 3, 4, 2}, 1.1) * 1.3;
  for (const auto& c : cases) {
    const std::string what =
        cat("mode ", static_cast<int>(c.mode), " padding ", static_cast<int>(c.padding), c.corners ? " corners" : "");
    const Tensor y = grid_sample(x, grid, {c.mode, c.padding, c.corners});
    const std::vector<Tensor> slopes = gradients(sum(y * y), {x, grid});  // before y is computed
    expect_print(y, c.weighted, c.squares, what);
    EXPECT_NEAR(sum(slopes[0] * slopes[0]).item<double>(), c.picture_slope, 1e-8) << what;
    if (c.mode == Interpolation::nearest) continue;  // the grid has no slope
    EXPECT_NEAR(sum(slopes[1] * slopes[1]).item<double>(), c.grid_slope, 1e-7) << what;
  }
}

}  // namespace
}  // namespace varve::test
