#pragma once

// What the tests of the oneDNN wrapper share: buffers, values and the plain loops that they compare with.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/onednn/onednn.h"

namespace varve::cpu::dnn {

using Values = std::vector<float>;
using Halves = std::vector<std::uint16_t>;
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Aligned as the arena is.
class Bytes {
 public:
  explicit Bytes(std::size_t size) : data_(std::aligned_alloc(64, (size + 64) / 64 * 64)) {}
  void* get() const { return data_.get(); }
  float* floats() const { return static_cast<float*>(data_.get()); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
};

inline Values values(std::int64_t count, unsigned seed) {
  Values v(static_cast<std::size_t>(count));
  unsigned state = seed * 2654435761u + 1;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 8388608.f - 1.f;
  }
  return v;
}

inline Halves to_bf16(Values& v) {
  Halves halves;
  for (float& x : v) {
    const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
    x = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    halves.push_back(bits);
  }
  return halves;
}

inline void expect_near(const Values& expected, const float* actual, double tolerance, const std::string& what) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(expected[i] - actual[i]);
    // Written so that a NaN counts as wrong.
    if (!(error <= worst)) worst = error;
    if (std::isnan(error)) break;
  }
  EXPECT_LE(worst, tolerance) << what;
}

inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

inline void naive_matmul(const MatmulSpec& s, const Values& a, const Values& b, const Values& bias, Values& c) {
  for (std::int64_t g = 0; g < s.batch; ++g) {
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < s.k; ++p) {
          sum += static_cast<double>(a[g * s.a.batch + i * s.a.row + p * s.a.col]) *
                 b[g * s.b.batch + p * s.b.row + j * s.b.col];
        }
        float& out = c[g * s.c.batch + i * s.c.row + j * s.c.col];
        sum += (s.beta == 0 ? 0.0 : s.beta * out) + (s.bias ? bias[j] : 0.f);
        out = static_cast<float>(activate(s.activation, sum));
      }
    }
  }
}

inline MatmulSpec row_major(std::int64_t m, std::int64_t k, std::int64_t n) {
  return {.m = m, .n = n, .k = k, .a = {.row = k, .col = 1}, .b = {.row = n, .col = 1}, .c = {.row = n, .col = 1}};
}

}  // namespace varve::cpu::dnn
