// Which kernels the CPU backend chooses for products, convolutions and rows with their neighbours, when it must not,
// and that the results are the reference's either way.
#include "cpu_programs.h"
#include "varve/autodiff.h"
#include "varve/ops.h"

namespace varve {
namespace {

// ---- gelu

TEST(CpuGelu, WithItsSlopeInOnePass) {
  const Function trained = [](const TensorList& in) {
    const Tensor y = gelu(in[0] * 4.0);
    return TensorList{y, gradients(sum(y * in[1]), {in[0]})[0]};
  };
  for (const Shape& shape : {Shape{1}, Shape{37}, Shape{3, 100, 67}})
    expect_kernel(checked(trained, {values(shape, 1), values(shape, 2)}), "gelu+slope");
  // Without a gradient it goes with its neighbours.
  expect_no_kernel(checked([](const TensorList& in) { return TensorList{gelu(in[0]) + 1.0}; }, {values({37}, 1)}),
                   "gelu+slope");
}

// ---- rows

TEST(CpuRows, CrossEntropyAndItsGradientInOneKernel) {
  const Tensor labels = tensor(std::vector<std::int64_t>{1, 0, 4, 2}, Shape{4});
  const std::string text = checked(
      [&](const TensorList& in) {
        const Tensor loss = cross_entropy(in[0], in[1]);
        return TensorList{loss, gradients(loss, {in[0]})[0]};
      },
      {values({4, 5}, 1), labels});
  expect_kernel(text, "rows cross_entropy+gradient");
}

TEST(CpuRows, SoftmaxAndItsGradient) {
  const std::string text = checked(
      [](const TensorList& in) {
        const Tensor y = softmax(in[0], -1);
        return TensorList{gradients(sum(y * in[1]), {in[0]})[0]};
      },
      {values({3, 2, 37}, 1), values({3, 2, 37}, 2)});
  expect_kernel(text, "rows softmax  <-");
  expect_kernel(text, "rows softmax_grad");
  const std::string other =
      checked([](const TensorList& in) { return TensorList{softmax(in[0], 0)}; }, {values({7, 5}, 1)});
  expect_no_kernel(other, "rows softmax  <-");
}

TEST(CpuRows, Norms) {
  const std::string text = checked(
      [](const TensorList& in) {
        return TensorList{layer_norm(in[0], in[1], in[2]), rms_norm(in[0], in[1])};
      },
      {values({6, 33}, 1), values({33}, 2), values({33}, 3)});
  expect_kernel(text, "rows layer_norm");
  expect_kernel(text, "rows rms_norm");
}

TEST(CpuRows, ALabelOutOfRangeIsAnErrorAtTheRead) {
  const Tensor labels = tensor(std::vector<std::int32_t>{1, 7}, Shape{2});
  const Tensor loss = cross_entropy(values({2, 5}, 1), labels);
  try {
    loss.item<float>();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("7"), std::string::npos) << e.what();
  }
}

// ---- any number of threads, the same bits

TensorList dense_step(const TensorList& in) {
  const Tensor y = relu(matmul(in[0], in[1]) + in[2]);
  const std::vector<Tensor> g = gradients(sum(y * y), {in[0], in[1]});
  return {y, g[0], g[1]};
}

TensorList conv_step(const TensorList& in) {
  const Tensor y = relu(conv2d(in[0], in[1], {.padding = {1, 1}}) + in[2]);
  const std::vector<Tensor> g = gradients(sum(y * y), {in[0], in[1]});
  return {y, g[0], g[1]};
}

void expect_same_bits(const Function& f, const TensorList& in) {
  const ThreadsRestored restored;
  set_deterministic(true);
  set_threads(1);
  const Outcome one = run_on("cpu", f, in);
  for (const int count : {2, 3, 4}) {
    set_threads(count);
    EXPECT_EQ(run_on("cpu", f, in).results, one.results) << count << " threads";
  }
  const Outcome reference = run_on("reference", f, in);
  for (std::size_t i = 0; i < one.results.size(); ++i) expect_close(one.results[i], reference.results[i], "reference");
}

TEST(CpuDeterministic, Products) {
  expect_same_bits(dense_step, {values({65, 130}, 1), values({130, 150}, 2), values({150}, 3)});
  expect_same_bits([](const TensorList& in) { return TensorList{matmul(in[0], in[1])}; },
                   {values({18, 5, 33}, 1), values({18, 33, 7}, 2)});
}

TEST(CpuDeterministic, Convolutions) {
  expect_same_bits(conv_step, {values({5, 9, 8, 16}, 1), values({24, 3, 3, 16}, 2), values({24}, 3)});
}

TEST(CpuThreads, AProgramSurvivesAChangeOfThreads) {
  const ThreadsRestored restored;
  const TensorList in = {values({65, 130}, 1), values({130, 150}, 2), values({150}, 3)};
  set_threads(4);
  const auto program = detail::compile(dense_step, {.device = "cpu"});
  const Outcome reference = run_on("reference", dense_step, in);
  for (const int count : {4, 1, 2, 7}) {
    set_threads(count);
    const TensorList results = call(*program, in);
    for (std::size_t i = 0; i < results.size(); ++i)
      expect_close(results[i].to_vector<float>(), reference.results[i], std::to_string(count) + " threads");
  }
}

#ifdef VARVE_HAS_ONEDNN

// ---- products

TEST(CpuPatterns, ProductWithBiasAndActivation) {
  const TensorList in = {values({9, 140}, 1), values({140, 33}, 2), values({33}, 3)};
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> activations = {
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); }}};
  for (const auto& [name, activation] : activations) {
    expect_kernel(checked([&](const TensorList& t) { return TensorList{activation(matmul(t[0], t[1]) + t[2])}; }, in),
                  "onednn matmul+bias+" + name + "  <-");
    expect_kernel(checked([&](const TensorList& t) { return TensorList{activation(matmul(t[0], t[1]))}; }, in),
                  "onednn matmul+" + name + "  <-");
  }
  expect_kernel(checked(
                    [](const TensorList& t) {
                      return TensorList{t[2].reshape({1, 33}) + matmul(t[0], t[1])};
                    },
                    in),
                "onednn matmul+bias  <-");
}

TEST(CpuPatterns, NanIsNotHidden) {
  std::vector<float> x(2 * 140, 1.f);
  x[3] = NAN;
  const auto y = run_on("cpu", [](const TensorList& t) { return TensorList{relu(matmul(t[0], t[1]) + t[2])}; },
                        {tensor(x, Shape{2, 140}), ones({140, 33}) * -1, zeros({33})});
  expect_kernel(y.text, "onednn matmul+bias+relu  <-");
  EXPECT_TRUE(std::isnan(y.results[0][0]));
  EXPECT_EQ(y.results[0][33], 0);
  EXPECT_FALSE(std::signbit(y.results[0][33]));
}

TEST(CpuPatterns, ShortSumsLeaveTheActivationToTheNextGroup) {
  const std::string text = checked([](const TensorList& t) { return TensorList{relu(matmul(t[0], t[1]) + t[2])}; },
                                   {values({9, 40}, 1), values({40, 33}, 2), values({33}, 3)});
  expect_kernel(text, "onednn matmul+bias  <-");
}

TEST(CpuPatterns, WhatOthersReadIsNotHidden) {
  const TensorList in = {values({9, 140}, 1), values({140, 33}, 2), values({33}, 3)};
  const std::string text = checked(
      [](const TensorList& t) {
        const Tensor z = matmul(t[0], t[1]) + t[2];
        return TensorList{gelu(z), z * 2};
      },
      in);
  expect_kernel(text, "onednn matmul+bias  <-");
  expect_no_kernel(text, "+gelu");
  const std::string returned = checked(
      [](const TensorList& t) {
        const Tensor y = matmul(t[0], t[1]);
        return TensorList{y, y + t[2]};
      },
      in);
  expect_kernel(returned, "onednn matmul  <-");
}

TEST(CpuPatterns, ABiasForEachRowIsNoBias) {
  const std::string text = checked([](const TensorList& t) { return TensorList{matmul(t[0], t[1]) + t[2]}; },
                                   {values({9, 40}, 1), values({40, 9}, 2), values({9, 1}, 3)});
  expect_no_kernel(text, "+bias");
}

TEST(CpuPatterns, TransposedAndSlicedOperandsAreNotCopied) {
  const std::string text = checked(
      [](const TensorList& t) {
        return TensorList{matmul(transpose(t[0]), t[1].slice({Range{0, 40}, Range{3, 30}})),
                          matmul(t[2], t[2], {.transpose_b = true})};
      },
      {values({40, 9}, 1), values({40, 33}, 2), values({6, 5, 8}, 3)});
  expect_no_kernel(text, "copy");
}

TEST(CpuPatterns, OperandsWithoutAdjacentElements) {
  checked(
      [](const TensorList& t) {
        return TensorList{relu(matmul(t[0].slice({Range{0, kEnd, 2}, Range{0, kEnd, 2}}), t[1]) + t[2])};
      },
      {values({10, 280}, 1), values({140, 33}, 2), values({33}, 3)});
}

// ---- convolutions

TEST(CpuPatterns, ConvolutionWithBiasAndActivation) {
  const TensorList in = {values({2, 9, 8, 15}, 1), values({16, 3, 3, 15}, 2), values({16}, 3)};
  const std::string text = checked(
      [](const TensorList& t) {
        return TensorList{relu(conv2d(t[0], t[1], {.padding = {1, 1}}) + t[2])};
      },
      in);
  expect_kernel(text, "onednn conv2d+bias+relu  <-");
  const std::string gradients_text = checked(conv_step, in);
  expect_kernel(gradients_text, "onednn conv2d_input_grad");
  expect_kernel(gradients_text, "onednn conv2d_weight_grad");
}

TEST(CpuPatterns, ConvolutionsThatPadMoreThanTheKernelAreOurOwn) {
  const std::string text = checked(
      [](const TensorList& t) {
        return TensorList{conv2d(t[0], t[1], {.padding = {2, 2}})};
      },
      {values({2, 5, 4, 3}, 1), values({4, 2, 2, 3}, 2)});
  expect_kernel(text, "plain conv2d  <-");
  expect_kernel(text, "padding as wide as the kernel");
}

// Many pixels and one tap: dyᵀ·x. Other strides and kernels are no product.
TEST(CpuConv, TheWeightGradientOfOneTapIsAProduct) {
  const auto gradient = [](const Conv2dOptions& o) {
    return [o](const TensorList& in) {
      return TensorList{gradients(sum(square(conv2d(in[0], in[1], o))), {in[1]})[0] * (1.f / 8192)};
    };
  };
  const Tensor x = values({2, 65, 64, 3}, 1);
  expect_kernel(checked(gradient({}), {x, values({5, 1, 1, 3}, 2)}), "onednn matmul of pixels  <-");
  expect_no_kernel(checked(gradient({.stride = {2, 1}}), {x, values({5, 1, 1, 3}, 2)}), "matmul of pixels  <-");
  expect_no_kernel(checked(gradient({}), {x, values({5, 1, 2, 3}, 2)}), "matmul of pixels  <-");
}

#endif  // VARVE_HAS_ONEDNN

}  // namespace
}  // namespace varve
