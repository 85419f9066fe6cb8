// Softmax, losses, norms and recurrent cells of the CPU backend, against the textbook in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/norm/layer_norm_kernels.h"
#include "backends/cpu/norm/softmax_kernels.h"
#include "backends/cpu/recurrent/cell_kernels.h"
#include "backends/cpu/recurrent/lstm_step.h"
#include "backends/instruction_sets.h"
#include "backends/tile_run.h"

namespace varve::cpu::testing {
namespace {

using Floats = std::vector<float>;
constexpr float kFloatInf = std::numeric_limits<float>::infinity();

Floats random_rows(std::int64_t n, int seed, double scale = 1) {
  Floats result;
  for (const double value : pseudo_randoms(n, seed)) result.push_back(static_cast<float>(value * scale));
  return result;
}

const Matrix kRowShapes[] = {{0, 3}, {1, 1}, {3, 2}, {5, 10}, {2, 16}, {7, 17}, {4, 1000}, {300, 65}};

struct Row {  // of a softmax, in double
  double most = -kFloatInf, sum = 0;
  Row(const float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) most = std::max(most, static_cast<double>(x[i]));
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - most);
  }
  double p(float x) const { return std::exp(x - most) / sum; }
  double lse() const { return most + std::log(sum); }
};

TEST(Softmax, MatchesTheTextbook) {
  for (const Matrix shape : kRowShapes) {
    for (const double scale : {1.0, 300.0}) {
      const Floats x = random_rows(shape.rows * shape.columns, 1, scale),
                   dy = random_rows(shape.rows * shape.columns, 2);
      Floats y(x.size()), log_y(x.size()), dx(x.size()), log_dx(x.size());
      softmax(x.data(), y.data(), shape);
      log_softmax(x.data(), log_y.data(), shape);
      softmax_grad(y.data(), dy.data(), dx.data(), shape);
      log_softmax_grad(log_y.data(), dy.data(), log_dx.data(), shape);
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        const std::size_t at = static_cast<std::size_t>(r * shape.columns);
        const Row row(&x[at], shape.columns);
        double dot = 0, sum = 0;
        for (std::size_t i = at; i < at + static_cast<std::size_t>(shape.columns); ++i) {
          dot += row.p(x[i]) * dy[i];
          sum += dy[i];
        }
        for (std::size_t i = at; i < at + static_cast<std::size_t>(shape.columns); ++i) {
          EXPECT_NEAR(y[i], row.p(x[i]), 1e-6);
          EXPECT_NEAR(log_y[i], x[i] - row.lse(), 1e-6 * (1 + scale));
          EXPECT_NEAR(dx[i], (dy[i] - dot) * row.p(x[i]), 1e-6);
          EXPECT_NEAR(log_dx[i], dy[i] - row.p(x[i]) * sum, 2e-6 * (1 + std::abs(sum)) * (1 + scale / 10));
        }
      }
      Floats in_place = x;
      softmax(in_place.data(), in_place.data(), shape);
      EXPECT_EQ(in_place, y);
    }
  }
}

TEST(Softmax, EdgeRows) {
  Floats x = {-kFloatInf, 0, -kFloatInf, 0, std::nanf(""), 1, 2, 3, 1e38f, -1e38f, 0, 0}, y(12);
  softmax(x.data(), y.data(), {3, 4});
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0.5f);
  for (int i = 4; i < 8; ++i) EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(i)]));
  EXPECT_EQ(y[8], 1);
  EXPECT_EQ(y[9], 0);
}

template <class Int>
void check_cross_entropy(Matrix shape, DType dtype) {
  const Floats x = random_rows(shape.rows * shape.columns, 3, 5), scale = random_rows(shape.rows, 4);
  std::vector<Int> labels;
  for (std::int64_t r = 0; r < shape.rows; ++r) labels.push_back(static_cast<Int>(r * 7 % shape.columns));
  const std::size_t rows = static_cast<std::size_t>(shape.rows);
  Floats loss(rows), lse(rows), dx(x.size());
  EXPECT_EQ(softmax_cross_entropy(x.data(), {labels.data(), dtype}, loss.data(), lse.data(), shape), -1);
  EXPECT_EQ(
      softmax_cross_entropy_grad(x.data(), lse.data(), {labels.data(), dtype}, {scale.data(), true}, dx.data(), shape),
      -1);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t at = r * static_cast<std::size_t>(shape.columns);
    const Row row(&x[at], shape.columns);
    EXPECT_NEAR(loss[r], row.lse() - x[at + static_cast<std::size_t>(labels[r])], 2e-6 * (1 + std::abs(loss[r])));
    EXPECT_NEAR(lse[r], row.lse(), 1e-6 * (1 + std::abs(lse[r])));
    for (std::size_t i = 0; i < static_cast<std::size_t>(shape.columns); ++i) {
      const double one = static_cast<std::size_t>(labels[r]) == i ? 1 : 0;
      EXPECT_NEAR(dx[at + i], (row.p(x[at + i]) - one) * scale[r], 4e-6);
    }
  }
}

TEST(SoftmaxCrossEntropy, MatchesTheTextbook) {
  for (const Matrix shape : kRowShapes) {
    check_cross_entropy<std::int32_t>(shape, DType::i32);
    check_cross_entropy<std::int64_t>(shape, DType::i64);
  }
}

TEST(SoftmaxCrossEntropy, NamesTheFirstBadLabel) {
  const Floats x(12, 1.0f), lse(4, 1.0f);
  const std::int64_t labels[] = {0, 2, 3, -1};
  const float scale = 1;
  Floats loss(4), dx(12);
  EXPECT_EQ(softmax_cross_entropy(x.data(), {labels, DType::i64}, loss.data(), nullptr, {4, 3}), 2);
  EXPECT_TRUE(std::isnan(loss[2]) && std::isnan(loss[3]) && !std::isnan(loss[1]));
  EXPECT_EQ(softmax_cross_entropy_grad(x.data(), lse.data(), {labels, DType::i64}, {&scale}, dx.data(), {4, 3}), 2);
  EXPECT_TRUE(std::isnan(dx[6]) && !std::isnan(dx[5]));
}

// A directional derivative by central differences in double, against the kernel's gradient.
template <class F>
double slope(F f, std::vector<double> x, std::size_t i) {
  const double h = 1e-5;
  x[i] += h;
  const double up = f(x);
  x[i] -= 2 * h;
  return (up - f(x)) / (2 * h);
}

TEST(Norm, ForwardAndGradient) {
  for (const bool centred : {true, false}) {
    for (const std::int64_t n : {1, 5, 16, 33, 200}) {
      const Floats x = random_rows(2 * n, 5, 3), gain = random_rows(n, 6), bias = random_rows(n, 7),
                   dy = random_rows(2 * n, 8);
      const std::size_t size = x.size();
      Floats y(size), mean(2), rstd(2), dx(size);
      const Matrix shape{2, n};
      const NormParams params{gain.data(), bias.data(), 1e-3f};
      if (centred)
        layer_norm(x.data(), params, y.data(), mean.data(), rstd.data(), shape);
      else
        rms_norm(x.data(), params, y.data(), rstd.data(), shape);
      Floats dgain(gain.size()), dbias(gain.size());
      if (centred) {
        std::vector<std::byte> scratch(layer_norm_grad_scratch(shape));
        layer_norm_grad({.dy = dy.data(),
                         .x = x.data(),
                         .mean = mean.data(),
                         .rstd = rstd.data(),
                         .gain = gain.data(),
                         .dx = dx.data(),
                         .dgain = dgain.data(),
                         .dbias = dbias.data()},
                        shape, scratch.data());
        for (std::size_t i = 0; i < gain.size(); ++i) EXPECT_FLOAT_EQ(dbias[i], dy[i] + dy[i + gain.size()]);
      } else {
        rms_norm_grad(dy.data(), x.data(), rstd.data(), gain.data(), dx.data(), shape);
      }
      const auto norm = [&](const std::vector<double>& row) {
        double m = 0, v = 0;
        for (const double e : row) m += centred ? e / static_cast<double>(n) : 0;
        for (const double e : row) v += (e - m) * (e - m) / static_cast<double>(n);
        std::vector<double> out;
        for (std::size_t i = 0; i < row.size(); ++i)
          out.push_back((row[i] - m) / std::sqrt(v + 1e-3f) * gain[i] + bias[i]);
        return out;
      };
      for (std::size_t r = 0; r < 2; ++r) {
        const std::size_t at = r * static_cast<std::size_t>(n);
        const std::vector<double> row(x.begin() + static_cast<std::ptrdiff_t>(at),
                                      x.begin() + static_cast<std::ptrdiff_t>(at) + n);
        const auto loss = [&](const std::vector<double>& v) {
          double sum = 0;
          const std::vector<double> out = norm(v);
          for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dy[at + i];
          return sum;
        };
        for (std::size_t i = 0; i < row.size(); ++i) {
          EXPECT_NEAR(y[at + i], norm(row)[i], 1e-5);
          EXPECT_NEAR(dx[at + i], slope(loss, row, i), 1e-4);
        }
      }
    }
  }
}

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

Floats packed_gates(const Floats& weights, std::int64_t k, std::int64_t width) {
  Floats packed(lstm_packed_floats(k, width));
  pack_lstm(weights.data(), k, width, packed.data());
  return packed;
}

// Rows in blocks of all sizes; units that leave a part of a vector, or several vectors of gates, over.
void expect_steps() {
  for (const std::int64_t n : {1, 4, 7, 11, 16, 21, 30}) {
    const std::int64_t rows = 11, features = 3;
    const std::size_t h = static_cast<std::size_t>(n), count = 11 * h;
    const Floats x = random_rows(rows * features, 1, 2), prev = random_rows(rows * n, 2),
                 c_prev = random_rows(rows * n, 3), w = random_rows(features * 4 * n, 4), u = random_rows(n * 4 * n, 5),
                 start = random_rows(rows * 4 * n, 6);
    const Floats packed_w = packed_gates(w, features, n), packed_u = packed_gates(u, n, n);
    for (const bool bias : {false, true}) {
      Floats gates = start, c(count), out(count);
      lstm_step({.rows = rows,
                 .width = n,
                 .terms = {LstmTerm{{prev.data(), n}, n, packed_u.data()},
                           LstmTerm{{x.data(), 1, rows}, features, packed_w.data()}},
                 .start = bias ? plain::Start{start.data(), 0} : plain::Start{gates.data(), 4 * n},
                 .c_prev = c_prev.data(),
                 .gates = gates.data(),
                 .c = c.data(),
                 .h = out.data()});
      for (std::size_t k = 0; k < count; ++k) {
        const std::size_t row = k / h;
        double gate[4];
        for (std::size_t g = 0; g < 4; ++g) {
          const std::size_t column = g * h + k % h;
          double sum = start[bias ? column : row * 4 * h + column];
          for (std::size_t i = 0; i < h; ++i) sum += double{prev[row * h + i]} * u[i * 4 * h + column];
          for (std::size_t i = 0; i < 3; ++i) sum += double{x[i * 11 + row]} * w[i * 4 * h + column];
          gate[g] = g == 2 ? std::tanh(sum) : sigma(sum);
          EXPECT_NEAR(gates[row * 4 * h + column], gate[g], 2e-6);
        }
        const double cell = gate[1] * c_prev[k] + gate[0] * gate[2];
        EXPECT_NEAR(c[k], cell, 2e-6);
        EXPECT_NEAR(out[k], gate[3] * std::tanh(cell), 2e-6);
      }
    }
  }
}

TEST(Lstm, AStepOfSomeRows) {
  expect_steps();
  const Avx2Only older;
  expect_steps();
}

// One unit, from what its gates and its state are before the activations.
struct Unit {
  Floats gates, c = {0}, h = {0};
  Unit(const Floats& pre, float c_prev) : gates(4) {
    lstm_step({.rows = 1,
               .width = 1,
               .start = {pre.data(), 4},
               .c_prev = &c_prev,
               .gates = gates.data(),
               .c = c.data(),
               .h = h.data()});
  }
};

TEST(Lstm, GatesFarFromZero) {
  for (const float g : {-kFloatInf, -1.0f, 1e-6f, 30.0f})
    for (const float pre : {-kFloatInf, -200.0f, -43.0f, -20.0f, 20.0f, 43.0f, 200.0f, kFloatInf}) {
      const Unit unit({pre, pre, g, pre}, 0.5f);
      for (const std::size_t gate : {0, 1, 3}) EXPECT_NEAR(unit.gates[gate], sigma(pre), sigma(pre) * 1e-6 + 1e-18);
      EXPECT_NEAR(unit.gates[2], std::tanh(g), std::abs(std::tanh(g)) * 1e-6);
    }
}

TEST(Lstm, NotANumberReachesWhatItMust) {
  const float nan = std::nanf("");
  for (const std::size_t gate : {0, 1, 2, 3}) {
    Floats pre(4, 1.0f);
    pre[gate] = nan;
    const Unit unit(pre, 0.5f);
    EXPECT_TRUE(std::isnan(unit.gates[gate]) && std::isnan(unit.h[0]));
    EXPECT_EQ(std::isnan(unit.c[0]), gate != 3);
  }
}

TEST(Lstm, ForwardAndGradient) {
  for (const std::int64_t n : {1, 7, 16, 21}) {
    const std::size_t h = static_cast<std::size_t>(n);
    const Floats pre = random_rows(8 * n, 1, 2), c_prev = random_rows(2 * n, 2), dh = random_rows(2 * n, 3),
                 dc = random_rows(2 * n, 4);
    Floats gates(8 * h), c(2 * h), out(2 * h), dpre(8 * h), dc_prev(2 * h);
    lstm_step({.rows = 2,
               .width = n,
               .start = {pre.data(), 4 * n},
               .c_prev = c_prev.data(),
               .gates = gates.data(),
               .c = c.data(),
               .h = out.data()});
    lstm_cell_grad({dh.data(), dc.data(), gates.data(), c_prev.data(), c.data(), dpre.data(), dc_prev.data()}, {2, n});
    for (std::size_t k = 0; k < 2 * h; ++k) {
      const std::size_t at = k / h * 4 * h + k % h;
      const std::vector<double> point = {pre[at], pre[at + h], pre[at + 2 * h], pre[at + 3 * h], c_prev[k]};
      const auto cell = [](const std::vector<double>& v) { return sigma(v[1]) * v[4] + sigma(v[0]) * std::tanh(v[2]); };
      const auto loss = [&](const std::vector<double>& v) {
        return dh[k] * sigma(v[3]) * std::tanh(cell(v)) + dc[k] * cell(v);
      };
      EXPECT_NEAR(c[k], cell(point), 1e-6);
      EXPECT_NEAR(out[k], sigma(point[3]) * std::tanh(cell(point)), 1e-6);
      for (std::size_t g = 0; g < 4; ++g) EXPECT_NEAR(dpre[at + g * h], slope(loss, point, g), 1e-5);
      EXPECT_NEAR(dc_prev[k], slope(loss, point, 4), 1e-5);
    }
  }
}

TEST(Gru, ForwardAndGradient) {
  for (const std::int64_t n : {1, 7, 16, 21}) {
    const std::size_t h = static_cast<std::size_t>(n);
    const Floats x = random_rows(6 * n, 1, 2), u = random_rows(6 * n, 2, 2), h_prev = random_rows(2 * n, 3),
                 dh = random_rows(2 * n, 4);
    Floats gates(8 * h), out(2 * h), dx(6 * h), du(6 * h), dh_prev(2 * h);
    gru_cell({x.data(), u.data(), h_prev.data(), gates.data(), out.data()}, {2, n});
    gru_cell_grad({dh.data(), gates.data(), h_prev.data(), dx.data(), du.data(), dh_prev.data()}, {2, n});
    for (std::size_t k = 0; k < 2 * h; ++k) {
      const std::size_t at = k / h * 3 * h + k % h;
      const std::vector<double> point = {x[at], x[at + h], x[at + 2 * h], u[at], u[at + h], u[at + 2 * h], h_prev[k]};
      const auto state = [](const std::vector<double>& v) {
        const double r = sigma(v[0] + v[3]), z = sigma(v[1] + v[4]), m = std::tanh(v[2] + r * v[5]);
        return (1 - z) * m + z * v[6];
      };
      const auto loss = [&](const std::vector<double>& v) { return dh[k] * state(v); };
      EXPECT_NEAR(out[k], state(point), 1e-6);
      for (std::size_t g = 0; g < 3; ++g) {
        EXPECT_NEAR(dx[at + g * h], slope(loss, point, g), 1e-5);
        EXPECT_NEAR(du[at + g * h], slope(loss, point, 3 + g), 1e-5);
      }
      EXPECT_NEAR(dh_prev[k], slope(loss, point, 6), 1e-5);
    }
  }
}

TEST(Rnn, ForwardAndGradient) {
  const Floats pre = {-2, -0.0f, 0.5f, 3, kFloatInf, -kFloatInf, std::nanf("")}, dh(7, 2.0f);
  Floats h(7), dpre(7);
  rnn_cell(RnnActivation::tanh, pre.data(), h.data(), {1, 7});
  rnn_cell_grad(RnnActivation::tanh, dh.data(), h.data(), dpre.data(), {1, 7});
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(h[i], std::tanh(pre[i]), 1e-6);
    EXPECT_NEAR(dpre[i], 2 * (1 - std::pow(std::tanh(pre[i]), 2)), 1e-6);
  }
  EXPECT_EQ(h[4], 1);
  EXPECT_EQ(h[5], -1);
  EXPECT_TRUE(std::isnan(h[6]));
  rnn_cell(RnnActivation::relu, pre.data(), h.data(), {1, 7});
  rnn_cell_grad(RnnActivation::relu, dh.data(), h.data(), dpre.data(), {1, 7});
  EXPECT_EQ(h[0], 0);
  EXPECT_EQ(h[3], 3);
  EXPECT_EQ(dpre[0], 0);
  EXPECT_EQ(dpre[3], 2);
}

}  // namespace
}  // namespace varve::cpu::testing
