// A small problem with a matrix and a vector to learn, and ways to take steps on it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/ops.h"
#include "varve/optim.h"

namespace varve::optim {

// loss = ½ Σ a (w - c)² + ⅓ Σ b³, so that dw = a (w - c) and db = b².
struct Problem {
  Variable w{"fc.weight", tensor({{1.f, -2.f, 0.5f}, {3.f, 0.f, -1.f}})};
  Variable b{"fc.bias", tensor({0.5f, -0.25f, 2.f})};
  Tensor a = tensor({{1.f, 0.5f, 2.f}, {0.25f, 1.5f, 1.f}});
  Tensor c = tensor({{0.5f, 0.5f, -1.f}, {2.f, 1.f, -1.25f}});

  std::vector<Variable> parameters() const { return {w, b}; }
  Tensor loss() const {
    const Tensor off = w.value() - c, v = b.value();
    return sum(a * off * off) / 2 + sum(v * v * v) / 3;
  }
  std::vector<Tensor> gradients() const {
    return value_and_grad([this] { return loss(); }, parameters()).second;
  }
  std::vector<double> values() const {
    std::vector<double> all = w.value().to_vector<double>();
    for (const double x : b.value().to_vector<double>()) all.push_back(x);
    return all;
  }
};

inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                        const std::string& what = "") {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 2e-6 * (1 + std::abs(expected[i]))) << what << ", value " << i;
}

// Five steps, one call of apply each.
inline std::vector<double> five_steps(const Optimizer& optimizer) {
  Problem problem;
  Bound bound = optimizer.over(problem.parameters());
  for (int i = 0; i < 5; ++i) bound.apply(problem.gradients());
  return problem.values();
}

inline std::vector<double> five_compiled_steps(const Optimizer& optimizer) {
  Problem problem;
  Bound bound = optimizer.over(problem.parameters());
  auto step = compile([&] {
    auto [loss, gradients] = value_and_grad([&] { return problem.loss(); }, problem.parameters());
    bound.apply(gradients);
    return loss;
  });
  for (int i = 0; i < 5; ++i) step();
  return problem.values();
}

inline void expect_error(const std::function<void()>& f, const std::string& part) {
  std::string message = "no error";
  try {
    f();
  } catch (const Error& e) {
    message = e.what();
  }
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace varve::optim
