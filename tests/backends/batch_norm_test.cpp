// Batch norm of the CPU backend against the textbook in double: odd sizes, far from zero, in place.
#include <gtest/gtest.h>

#include "backends/cpu/norm/batch_norm_kernels.h"
#include "backends/tile_run.h"
#include "base/threads.h"

namespace varve::cpu::testing {
namespace {

using Doubles = std::vector<double>;
constexpr double kEpsilon = 1e-5;

// One row, one channel, batches of 17, lines of several rows with some left over, many slices.
const Matrix kShapes[] = {{1, 1}, {17, 3}, {17, 64}, {2, 100}, {1000, 1}, {997, 7}, {300, 65}, {5000, 48}, {4000, 130}};

struct Values {  // in f32 or bf16
  DType dtype;
  std::vector<std::byte> bytes;
  std::size_t count;

  Values(DType type, const Doubles& from) : dtype(type), bytes(from.size() * size_of(type)), count(from.size()) {
    for (std::size_t i = 0; i < count; ++i) store_f(bytes.data(), dtype, static_cast<std::int64_t>(i), from[i]);
  }
  Values(DType type, std::size_t n) : Values(type, Doubles(n)) {}
  double operator[](std::size_t i) const { return load_f(bytes.data(), dtype, static_cast<std::int64_t>(i)); }
};

Doubles randoms(std::int64_t n, int seed, double offset = 0) {
  Doubles values = pseudo_randoms(n, seed);
  for (double& v : values) v = v * 1.7 + offset;
  return values;
}

std::vector<float> floats(const Doubles& from) { return {from.begin(), from.end()}; }

struct Case {
  Matrix shape;
  DType dtype;
  Values x, added, dy, more;
  std::vector<float> scale, shift;
  std::vector<std::byte> scratch;
  BatchNormKernel kernel;

  Case(Matrix s, DType type, double offset)
      : shape(s),
        dtype(type),
        x(type, randoms(s.rows * s.columns, 1, offset)),
        added(type, randoms(s.rows * s.columns, 2)),
        dy(type, randoms(s.rows * s.columns, 3)),
        more(type, randoms(s.rows * s.columns, 4)),
        scale(floats(randoms(s.columns, 5, 2))),
        shift(floats(randoms(s.columns, 6))),
        kernel(s, type, kEpsilon) {
    scratch.resize(kernel.scratch_bytes());
  }
  std::size_t size() const { return x.count; }
  std::size_t channel(std::size_t i) const { return i % static_cast<std::size_t>(shape.columns); }
};

struct Statistics {
  Doubles mean, var;
  explicit Statistics(const Case& c) : mean(c.scale.size()), var(c.scale.size()) {
    const double n = static_cast<double>(c.shape.rows);
    for (std::size_t i = 0; i < c.size(); ++i) mean[c.channel(i)] += c.x[i] / n;
    for (std::size_t i = 0; i < c.size(); ++i) var[c.channel(i)] += std::pow(c.x[i] - mean[c.channel(i)], 2) / n;
  }
};

struct Result {
  Values y;
  std::vector<float> mean, var;
  explicit Result(const Case& c) : y(c.dtype, c.size()), mean(c.scale.size()), var(c.scale.size()) {}
};

Result forward(Case& c, bool add, bool relu) {
  Result r(c);
  c.kernel.forward({c.x.bytes.data(), add ? c.added.bytes.data() : nullptr, c.scale.data(), c.shift.data(), relu,
                    r.y.bytes.data(), r.mean.data(), r.var.data()},
                   c.scratch.data());
  return r;
}

// Half a unit of the type, and some rounding in f32 that grows with how far from zero x lies.
double tolerance(const Case& c, double value, double offset) {
  return (c.dtype == bf16 ? 5e-3 : 1e-5) * (1 + std::abs(value)) + 3e-7 * std::abs(offset);
}

void check_forward(Matrix shape, DType dtype, double offset) {
  Case c(shape, dtype, offset);
  const Statistics s(c);
  for (const bool add : {false, true}) {
    const Result r = forward(c, add, true);
    for (std::size_t k = 0; k < s.mean.size(); ++k) {
      ASSERT_NEAR(r.mean[k], s.mean[k], 1e-6 + 1e-7 * std::abs(offset)) << shape.rows << "×" << shape.columns;
      ASSERT_NEAR(r.var[k], s.var[k], 1e-5 * (s.var[k] + 0.1)) << shape.rows << "×" << shape.columns;
    }
    for (std::size_t i = 0; i < c.size(); ++i) {
      const std::size_t k = c.channel(i);
      const double gain = c.scale[k] / std::sqrt(s.var[k] + kEpsilon);
      const double want = std::max(0.0, (c.x[i] - s.mean[k]) * gain + c.shift[k] + (add ? c.added[i] : 0));
      ASSERT_NEAR(r.y[i], want, tolerance(c, want, offset * gain)) << shape.rows << "×" << shape.columns << " at " << i;
    }
  }
}

TEST(BatchNorm, ForwardMatchesTheTextbook) {
  for (const Matrix shape : kShapes)
    for (const DType dtype : {f32, bf16}) check_forward(shape, dtype, 0);
}

// Mean 10,000, deviation 1: variance as a mean of squares minus a squared mean would have no digits left.
TEST(BatchNorm, FarFromZeroTheVarianceKeepsItsDigits) {
  for (const Matrix shape : kShapes) check_forward(shape, f32, 1e4);
}

struct Gradients {
  Values dx, passed;
  std::vector<float> dscale, dshift;
  explicit Gradients(const Case& c)
      : dx(c.dtype, c.size()), passed(c.dtype, c.size()), dscale(c.scale.size()), dshift(c.scale.size()) {}
};

Gradients backward(Case& c, const Result& r, Passing passing, bool more, bool passes) {
  Gradients g(c);
  c.kernel.backward({.x = c.x.bytes.data(),
                     .from = {c.dy.bytes.data(), more ? c.more.bytes.data() : nullptr, passing, r.y.bytes.data()},
                     .scale = c.scale.data(),
                     .mean = r.mean.data(),
                     .var = r.var.data(),
                     .shift = c.shift.data(),
                     .dx = g.dx.bytes.data(),
                     .dscale = g.dscale.data(),
                     .dshift = g.dshift.data(),
                     .passed = passes ? g.passed.bytes.data() : nullptr},
                    c.scratch.data());
  return g;
}

void check_backward(Matrix shape, DType dtype, Passing passing, bool more, bool passes) {
  Case c(shape, dtype, 0.5);
  const Result r = forward(c, false, passing != Passing::everywhere);
  const Gradients got = backward(c, r, passing, more, passes);
  const double n = static_cast<double>(shape.rows);
  Doubles g(c.size()), sum(c.scale.size()), product(c.scale.size());
  const auto x_hat = [&](std::size_t i) {
    return (c.x[i] - r.mean[c.channel(i)]) / std::sqrt(r.var[c.channel(i)] + kEpsilon);
  };
  for (std::size_t i = 0; i < c.size(); ++i) {
    const bool open = passing == Passing::everywhere || r.y[i] > 0;
    g[i] = open ? c.dy[i] + (more ? c.more[i] : 0) : 0;
    if (passes) {
      ASSERT_NEAR(got.passed[i], g[i], tolerance(c, g[i], 0));
      g[i] = got.passed[i];
    }
    sum[c.channel(i)] += g[i];
    product[c.channel(i)] += g[i] * x_hat(i);
  }
  const double slack = 1e-6 * (1 + n);
  for (std::size_t k = 0; k < sum.size(); ++k) {
    ASSERT_NEAR(got.dshift[k], sum[k], slack) << shape.rows << "×" << shape.columns;
    ASSERT_NEAR(got.dscale[k], product[k], slack) << shape.rows << "×" << shape.columns;
  }
  for (std::size_t i = 0; i < c.size(); ++i) {
    const std::size_t k = c.channel(i);
    const double gain = c.scale[k] / std::sqrt(r.var[k] + kEpsilon);
    const double want = gain * (g[i] - sum[k] / n - x_hat(i) * product[k] / n);
    ASSERT_NEAR(got.dx[i], want, tolerance(c, want, 0) * (1 + std::abs(gain))) << shape.rows << "×" << shape.columns;
  }
}

TEST(BatchNorm, GradientMatchesTheTextbook) {
  for (const Matrix shape : kShapes)
    for (const DType dtype : {f32, bf16}) {
      check_backward(shape, dtype, Passing::everywhere, false, false);
      check_backward(shape, dtype, Passing::recomputed, false, false);
      check_backward(shape, dtype, Passing::output, false, false);
      check_backward(shape, dtype, Passing::output, false, true);
      check_backward(shape, dtype, Passing::output, true, true);
    }
}

TEST(BatchNorm, BitsDoNotDependOnTheNumberOfThreads) {
  const int before = threads();
  Case c({6001, 70}, f32, 3);
  set_threads(1);
  const Result one = forward(c, true, true);
  const Gradients one_back = backward(c, one, Passing::recomputed, false, false);
  for (const int count : {2, 3}) {
    set_threads(count);
    const Result many = forward(c, true, true);
    EXPECT_EQ(many.y.bytes, one.y.bytes);
    EXPECT_EQ(many.var, one.var);
    const Gradients back = backward(c, many, Passing::recomputed, false, false);
    EXPECT_EQ(back.dx.bytes, one_back.dx.bytes);
    EXPECT_EQ(back.dscale, one_back.dscale);
  }
  set_threads(before);
}

TEST(BatchNorm, WritesOverWhatItReads) {
  Case c({700, 33}, f32, 0);
  const Result apart = forward(c, true, true);
  const Gradients want = backward(c, apart, Passing::output, false, false);
  Case back({700, 33}, f32, 0);
  Gradients got(back);
  back.kernel.backward({.x = back.x.bytes.data(),
                        .from = {back.dy.bytes.data(), nullptr, Passing::output, apart.y.bytes.data()},
                        .scale = back.scale.data(),
                        .mean = apart.mean.data(),
                        .var = apart.var.data(),
                        .dx = back.dy.bytes.data(),
                        .dscale = got.dscale.data(),
                        .dshift = got.dshift.data()},
                       back.scratch.data());
  EXPECT_EQ(back.dy.bytes, want.dx.bytes);
  Result in_place(c);
  c.kernel.forward({c.x.bytes.data(), c.added.bytes.data(), c.scale.data(), c.shift.data(), true, c.x.bytes.data(),
                    in_place.mean.data(), in_place.var.data()},
                   c.scratch.data());
  EXPECT_EQ(c.x.bytes, apart.y.bytes);
}

}  // namespace
}  // namespace varve::cpu::testing
