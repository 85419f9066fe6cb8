// Fourier transforms, against their definition.
#include "varve/fft.h"

#include <cmath>
#include <complex>
#include <numbers>

#include "ops/row.h"

namespace varve::test {
namespace {

using Index = std::vector<std::int64_t>;
using Point = std::complex<double>;

struct Points {
  Shape shape;
  std::vector<Point> data;
};

Points points(const Doubles& re, const Doubles& im) {
  Points x{re.shape, {}};
  for (std::size_t i = 0; i < re.data.size(); ++i) x.data.emplace_back(re.data[i], im.data[i]);
  return x;
}
Points points(const Doubles& re) { return points(re, doubles(re.shape)); }
DoublesList parts(const Points& x) {
  DoublesList out = {doubles(x.shape), doubles(x.shape)};
  for (std::size_t i = 0; i < x.data.size(); ++i) out[0].data[i] = x.data[i].real(), out[1].data[i] = x.data[i].imag();
  return out;
}

// Along one axis, of the first points or with zeros behind; `kept` of the n frequencies.
Points by_definition(const Points& x, int axis, std::int64_t n, bool inverse, double factor, std::int64_t kept) {
  Points y{x.shape, {}};
  y.shape[axis] = kept;
  y.data.resize(static_cast<std::size_t>(y.shape.numel()));
  each_index(y.shape, [&](const Index& index) {
    Index from = index;
    Point sum = 0;
    for (std::int64_t i = 0; i < std::min(n, x.shape[axis]); ++i) {
      from[static_cast<std::size_t>(axis)] = i;
      const auto step = static_cast<double>(i * index[static_cast<std::size_t>(axis)] % n);
      sum += x.data[static_cast<std::size_t>(offset(x.shape, from))] *
             std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * step / static_cast<double>(n));
    }
    y.data[static_cast<std::size_t>(offset(y.shape, index))] = sum * factor;
  });
  return y;
}

// All n frequencies from the first n/2 + 1 along the last axis.
Points mirrored(const Points& x, std::int64_t n) {
  Points y{x.shape, {}};
  const int axis = x.shape.rank() - 1;
  y.shape[axis] = n;
  y.data.resize(static_cast<std::size_t>(y.shape.numel()));
  each_index(y.shape, [&](Index index) {
    const std::int64_t k = index.back();
    Point& to = y.data[static_cast<std::size_t>(offset(y.shape, index))];
    index.back() = k <= n / 2 ? k : n - k;
    if (index.back() >= x.shape.back()) return;
    const Point from = x.data[static_cast<std::size_t>(offset(x.shape, index))];
    to = k == 0 || 2 * k == n ? Point(from.real(), 0) : k <= n / 2 ? from : std::conj(from);
  });
  return y;
}

Tensors both(const fft::Complex& x) { return {x.re, x.im}; }

// Errors grow with the logarithm of the length; the bound is that of sums over all points, of any frequency.
Row fft_row(Row row) {
  row.op = "dft";
  row.types = {f32, f64};
  row.terms = [](const std::vector<Shape>& shapes) {
    std::int64_t longest = 2;
    for (const std::int64_t size : shapes[0]) longest = std::max(longest, size);
    return static_cast<double>(longest);
  };
  row.magnitude = [call = row.oracle](const DoublesList& in) {
    double total = 1;
    for (const Doubles& x : in)
      for (const double v : x.data) total += std::abs(v);
    DoublesList sizes = call(in);
    for (Doubles& y : sizes) std::fill(y.data.begin(), y.data.end(), total);
    return sizes;
  };
  return row;
}

Row complex_row(const std::string& label, bool inverse) {
  return fft_row({.label = label,
                  .call =
                      [inverse](const Tensors& in) {
                        return both(inverse ? fft::ifft({in[0], in[1]}) : fft::fft({in[0], in[1]}));
                      },
                  .oracle =
                      [inverse](const DoublesList& in) {
                        const Points x = points(in[0], in[1]);
                        const std::int64_t n = x.shape.back();
                        const double factor = inverse ? 1 / static_cast<double>(n) : 1;
                        return parts(by_definition(x, x.shape.rank() - 1, n, inverse, factor, n));
                      },
                  // One product, two steps, three of them, primes short and long, many rows.
                  .shapes = {{{1}, {1}},
                             {{8}, {8}},
                             {{3, 6}, {3, 6}},
                             {{2, 0, 5}, {2, 0, 5}},
                             {{35, 16}, {35, 16}},
                             {{60}, {60}},
                             {{2, 67}, {2, 67}},
                             {{77}, {77}},
                             {{96}, {96}},
                             {{262}, {262}},
                             {{3, 1, 512}, {3, 1, 512}}},
                  .gradient_shapes = {{{1}, {1}}, {{6}, {6}}, {{2, 5}, {2, 5}}, {{68}, {68}}}});
}

Row forward_options_row() {
  return fft_row({.label = "axis length ortho",
                  .call =
                      [](const Tensors& in) {
                        return both(fft::fft({in[0], in[1]}, {.n = 6, .axis = 0, .norm = fft::Norm::ortho}));
                      },
                  .oracle =
                      [](const DoublesList& in) {
                        return parts(by_definition(points(in[0], in[1]), 0, 6, false, 1 / std::sqrt(6.0), 6));
                      },
                  .shapes = {{{6, 2}, {6, 2}}, {{9, 2, 3}, {9, 2, 3}}, {{4}, {4}}},
                  .gradient_shapes = {{{9, 2}, {9, 2}}, {{4}, {4}}}});
}

Row real_row() {
  return fft_row({.label = "rfft",
                  .call = [](const Tensors& in) { return both(fft::rfft(in[0])); },
                  .oracle =
                      [](const DoublesList& in) {
                        const std::int64_t n = in[0].shape.back();
                        return parts(by_definition(points(in[0]), in[0].shape.rank() - 1, n, false, 1, n / 2 + 1));
                      },
                  .shapes = {{{1}}, {{2}}, {{3}}, {{4}}, {{2, 5}}, {{3, 12}}, {{2, 0, 6}}, {{130}}, {{2, 134}}},
                  .gradient_shapes = {{{2}}, {{2, 5}}, {{2, 6}}}});
}

Row real_inverse_row(const std::string& label, std::int64_t n) {
  const std::int64_t half = n / 2 + 1;
  return fft_row({.label = label,
                  .call =
                      [n](const Tensors& in) {
                        return fft::irfft({in[0], in[1]}, {.n = n});
                      },
                  .oracle =
                      [n](const DoublesList& in) {
                        const Points x = mirrored(points(in[0], in[1]), n);
                        return parts(by_definition(x, x.shape.rank() - 1, n, true, 1 / static_cast<double>(n), n))[0];
                      },
                  .shapes = {{{half}, {half}}, {{2, 3, half}, {2, 3, half}}, {{2, n + 3}, {2, n + 3}}, {{1}, {1}}},
                  .gradient_shapes = {{{2, half}, {2, half}}}});
}

Row planes_row() {
  return fft_row({.label = "fft2",
                  .call =
                      [](const Tensors& in) {
                        return both(fft::fft2({in[0], in[1]}));
                      },
                  .oracle =
                      [](const DoublesList& in) {
                        Points x = points(in[0], in[1]);
                        for (int axis = x.shape.rank() - 2; axis < x.shape.rank(); ++axis)
                          x = by_definition(x, axis, x.shape[axis], false, 1, x.shape[axis]);
                        return parts(x);
                      },
                  .shapes = {{{3, 4}, {3, 4}}, {{2, 5, 6}, {2, 5, 6}}}});
}

Row all_axes_row() {
  return fft_row({.label = "ifftn",
                  .call =
                      [](const Tensors& in) {
                        return both(fft::ifftn({in[0], in[1]}, {.sizes = {4, 3}, .axes = Axes{0, 2}}));
                      },
                  .oracle =
                      [](const DoublesList& in) {
                        const Points x = by_definition(points(in[0], in[1]), 2, 3, true, 1.0 / 3, 3);
                        return parts(by_definition(x, 0, 4, true, 1.0 / 4, 4));
                      },
                  .shapes = {{{4, 2, 3}, {4, 2, 3}}, {{2, 1, 5}, {2, 1, 5}}}});
}

Row real_planes_row() {
  return fft_row({.label = "irfft2 of rfft2",
                  .call =
                      [](const Tensors& in) {
                        return fft::irfft2(fft::rfft2(in[0]), {.sizes = {in[0].dim(-2), in[0].dim(-1)}});
                      },
                  .oracle = [](const DoublesList& in) { return in[0]; },
                  .shapes = {{{4, 6}}, {{2, 3, 5}}, {{1, 1}}}});
}

}  // namespace

std::vector<Row> fft_rows() {
  return {complex_row("fft", false),
          complex_row("ifft", true),
          forward_options_row(),
          real_row(),
          real_inverse_row("irfft even", 10),
          real_inverse_row("irfft odd", 7),
          planes_row(),
          all_axes_row(),
          real_planes_row()};
}

}  // namespace varve::test
