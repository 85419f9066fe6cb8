// Maximum pooling in one kernel with its neighbours: the values of the reference, and where it may not.
#include <gtest/gtest.h>

#include <cmath>

#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/ops.h"

namespace varve {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

// Few different values, so that windows have equals.
Tensor values(const Shape& shape, unsigned seed) {
  std::vector<float> v(static_cast<std::size_t>(shape.numel()));
  unsigned state = seed * 2654435761u + 1;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 28) / 4 - 2;
  }
  return tensor(v, shape);
}

struct Outcome {
  std::vector<std::vector<float>> results;
  std::string text;
};

Outcome run_on(const std::string& device, const Function& f, const Tensors& in) {
  const auto program = detail::compile(f, {.device = device});
  std::vector<const Tensor*> arguments;
  for (const Tensor& t : in) arguments.push_back(&t);
  const Tensors results = detail::Running(*program, arguments.data(), arguments.size()).results();
  Outcome outcome;
  outcome.text = detail::text(*program, in);
  for (const Tensor& t : results) outcome.results.push_back(t.to(f32).to_vector<float>());
  return outcome;
}

// Only moves values, but for sums.
std::string checked(const Function& f, const Tensors& in, double tolerance = 1e-4) {
  const Outcome cpu = run_on("cpu", f, in), reference = run_on("reference", f, in);
  EXPECT_EQ(cpu.results.size(), reference.results.size());
  for (std::size_t r = 0; r < cpu.results.size(); ++r) {
    EXPECT_EQ(cpu.results[r].size(), reference.results[r].size());
    for (std::size_t i = 0; i < cpu.results[r].size(); ++i)
      EXPECT_NEAR(cpu.results[r][i], reference.results[r][i], tolerance) << r << "[" << i << "]\n" << cpu.text;
  }
  return cpu.text;
}

void expect_kernel(const std::string& text, const std::string& kernel) {
  EXPECT_NE(text.find(kernel + "  <-"), std::string::npos) << "no " << kernel << " in\n" << text;
}

// relu(x + bias), pooled and dropped; its gradients for x and the bias.
Function pooled(const PoolOptions& options, DType dtype = f32) {
  return [options, dtype](const Tensors& in) {
    const Tensor y = dropout(max_pool2d(relu(in[0].to(dtype) + in[1].to(dtype)), options), 0.25, {.seed = 7});
    const Tensors grads = gradients(sum(y * in[2].to(dtype)), {in[0], in[1]});
    return Tensors{y, grads[0], grads[1]};
  };
}

TEST(CpuMaxPool, WithDropoutReluAndBias) {
  struct Case {
    Shape x, y;
    PoolOptions options;
  };
  const Case cases[] = {
      {{3, 8, 6, 20}, {3, 4, 3, 20}, {.window = {2, 2}}},
      {{17, 7, 9, 5}, {17, 3, 4, 5}, {.window = {2, 2}}},
      {{2, 11, 10, 33}, {2, 4, 2, 33}, {.window = {2, 3}, .stride = {3, 4}}},
      {{2, 5, 5, 7}, {2, 2, 2, 7}, {.window = {3, 3}, .stride = {3, 3}, .padding = {Padding(1, 0), Padding(0, 1)}}}};
  for (const Case& c : cases) {
    const std::string text = checked(pooled(c.options), {values(c.x, 1), values({c.x[3]}, 2), values(c.y, 3)});
    expect_kernel(text, "cpu max_pool2d+dropout");
    expect_kernel(text, "cpu dropout+max_pool2d_grad+relu_grad+bias_grad");
  }
}

TEST(CpuMaxPool, Bf16) {
  const std::string text =
      checked(pooled({.window = {2, 2}}, bf16), {values({3, 9, 6, 21}, 1), values({21}, 2), values({3, 4, 3, 21}, 3)},
              0.1);  // bf16 sums
  expect_kernel(text, "cpu max_pool2d+dropout");
  expect_kernel(text, "cpu dropout+max_pool2d_grad+relu_grad+bias_grad");
}

TEST(CpuMaxPool, NanIsTheLargest) {
  std::vector<float> x(4 * 3, 1.f);
  x[3] = NAN;
  const auto f = [](const Tensors& in) {
    const Tensor y = max_pool2d(in[0], {.window = {2, 2}});
    return Tensors{y, gradients(sum(y), {in[0]})[0]};
  };
  const Outcome got = run_on("cpu", f, {tensor(x, Shape{1, 2, 2, 3})});
  EXPECT_TRUE(std::isnan(got.results[0][0]));
  EXPECT_EQ(got.results[1], (std::vector<float>{0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(CpuMaxPool, WhatOthersReadIsNotHidden) {
  const std::string text = checked(
      [](const Tensors& in) {
        const Tensor pooled = max_pool2d(in[0], {.window = {2, 2}});
        return Tensors{dropout(pooled, 0.5, {.seed = 3}), pooled * 2};
      },
      {values({2, 4, 4, 3}, 1)});
  expect_kernel(text, "cpu max_pool2d");
  expect_kernel(text, "cpu dropout");
}

TEST(CpuMaxPool, WindowsThatOverlapAddUp) {
  const std::string text = checked(pooled({.window = {3, 3}, .stride = {2, 2}}),
                                   {values({2, 9, 7, 18}, 1), values({18}, 2), values({2, 4, 3, 18}, 3)});
  EXPECT_EQ(text.find("max_pool2d_grad+relu_grad"), std::string::npos);
}

}  // namespace
}  // namespace varve
