// Maximum pooling in one kernel with its neighbours: the values of the reference, and where it may not.
#include "cpu_programs.h"

namespace varve {
namespace {

// Few different values, so that windows have equals.
Tensor coarse(const Shape& shape, unsigned seed) {
  std::vector<float> v = values(shape, seed).to_vector<float>();
  for (float& x : v) x = std::floor(8 * x) / 4;
  return tensor(v, shape);
}

// relu(x + bias), pooled and dropped; its gradients for x and the bias.
Function pooled(const PoolOptions& options, DType dtype = f32) {
  return [options, dtype](const TensorList& in) {
    const Tensor y = dropout(max_pool2d(relu(in[0].to(dtype) + in[1].to(dtype)), options), 0.25, {.seed = 7});
    const TensorList grads = gradients(sum(y * in[2].to(dtype)), {in[0], in[1]});
    return TensorList{y, grads[0], grads[1]};
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
    const std::string text = checked(pooled(c.options), {coarse(c.x, 1), coarse({c.x[3]}, 2), coarse(c.y, 3)});
    expect_kernel(text, "cpu max_pool2d+dropout  <-");
    expect_kernel(text, "cpu dropout+max_pool2d_grad+relu_grad+bias_grad  <-");
  }
}

TEST(CpuMaxPool, Bf16) {
  const std::string text =
      checked(pooled({.window = {2, 2}}, bf16), {coarse({3, 9, 6, 21}, 1), coarse({21}, 2), coarse({3, 4, 3, 21}, 3)},
              0.005);  // bf16 sums
  expect_kernel(text, "cpu max_pool2d+dropout  <-");
  expect_kernel(text, "cpu dropout+max_pool2d_grad+relu_grad+bias_grad  <-");
}

TEST(CpuMaxPool, NanIsTheLargest) {
  std::vector<float> x(4 * 3, 1.f);
  x[3] = NAN;
  const auto f = [](const TensorList& in) {
    const Tensor y = max_pool2d(in[0], {.window = {2, 2}});
    return TensorList{y, gradients(sum(y), {in[0]})[0]};
  };
  const Outcome got = run_on("cpu", f, {tensor(x, Shape{1, 2, 2, 3})});
  EXPECT_TRUE(std::isnan(got.results[0][0]));
  EXPECT_EQ(got.results[1], (std::vector<float>{0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(CpuMaxPool, WhatOthersReadIsNotHidden) {
  const std::string text = checked(
      [](const TensorList& in) {
        const Tensor pooled = max_pool2d(in[0], {.window = {2, 2}});
        return TensorList{dropout(pooled, 0.5, {.seed = 3}), pooled * 2};
      },
      {coarse({2, 4, 4, 3}, 1)});
  expect_kernel(text, "cpu max_pool2d  <-");
  expect_kernel(text, "cpu dropout  <-");
}

TEST(CpuMaxPool, WindowsThatOverlapAddUp) {
  const std::string text = checked(pooled({.window = {3, 3}, .stride = {2, 2}}),
                                   {coarse({2, 9, 7, 18}, 1), coarse({18}, 2), coarse({2, 4, 3, 18}, 3)});
  EXPECT_EQ(text.find("+relu_grad"), std::string::npos);
}

}  // namespace
}  // namespace varve
