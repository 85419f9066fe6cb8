// Which kernels the CPU backend chooses for products, convolutions and rows with their neighbours, when it must not,
// and that the results are the reference's either way.
#include <gtest/gtest.h>

#include <cmath>

#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/ops.h"

namespace varve {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

Tensor values(const Shape& shape, unsigned seed) {
  std::vector<float> v(static_cast<std::size_t>(shape.numel()));
  unsigned state = seed * 2654435761u + 1;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 8388608.f - 1.f;
  }
  return tensor(v, shape);
}

struct Outcome {
  std::vector<std::vector<float>> results;
  std::string text;
};

Tensors call(detail::CompiledFn& program, const Tensors& in) {
  std::vector<const Tensor*> arguments;
  for (const Tensor& t : in) arguments.push_back(&t);
  return detail::Running(program, arguments.data(), arguments.size()).results();
}

Outcome run_on(const std::string& device, const Function& f, const Tensors& in) {
  const auto program = detail::compile(f, {.device = device});
  const Tensors results = call(*program, in);
  Outcome outcome;
  outcome.text = detail::text(*program, in);
  for (const Tensor& t : results) outcome.results.push_back(t.to_vector<float>());
  return outcome;
}

// Relative to the largest: sums of many terms cancel.
void expect_close(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double worst = 0, largest = 1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(error <= worst)) worst = error;  // NaN counts as wrong
    if (std::isnan(error)) break;
    largest = std::max<double>(largest, std::abs(want[i]));
  }
  EXPECT_LE(worst, 1e-5 * largest) << what;
}

// Runs f on the CPU, compares with the reference, and returns who claimed what.
std::string checked(const Function& f, const Tensors& in) {
  const Outcome cpu = run_on("cpu", f, in), reference = run_on("reference", f, in);
  EXPECT_EQ(cpu.results.size(), reference.results.size());
  for (std::size_t i = 0; i < cpu.results.size(); ++i)
    expect_close(cpu.results[i], reference.results[i], "result " + std::to_string(i) + "\n" + cpu.text);
  return cpu.text;
}

bool has(const std::string& text, const std::string& kernel) { return text.find(kernel) != std::string::npos; }

void expect_kernel(const std::string& text, const std::string& kernel) {
  EXPECT_TRUE(has(text, kernel)) << "no " << kernel << " in\n" << text;
}
void expect_no_kernel(const std::string& text, const std::string& kernel) {
  EXPECT_FALSE(has(text, kernel)) << kernel << " in\n" << text;
}

// ---- rows

TEST(CpuRows, CrossEntropyAndItsGradientInOneKernel) {
  const Tensor labels = tensor(std::vector<std::int64_t>{1, 0, 4, 2}, Shape{4});
  const std::string text = checked(
      [&](const Tensors& in) {
        const Tensor loss = cross_entropy(in[0], in[1]);
        return Tensors{loss, gradients(loss, {in[0]})[0]};
      },
      {values({4, 5}, 1), labels});
  expect_kernel(text, "rows cross_entropy+gradient");
}

TEST(CpuRows, SoftmaxAndItsGradient) {
  const std::string text = checked(
      [](const Tensors& in) {
        const Tensor y = softmax(in[0], -1);
        return Tensors{gradients(sum(y * in[1]), {in[0]})[0]};
      },
      {values({3, 2, 37}, 1), values({3, 2, 37}, 2)});
  expect_kernel(text, "rows softmax  <-");
  expect_kernel(text, "rows softmax gradient");
  const std::string other = checked([](const Tensors& in) { return Tensors{softmax(in[0], 0)}; }, {values({7, 5}, 1)});
  expect_no_kernel(other, "rows softmax  <-");
}

TEST(CpuRows, Norms) {
  const std::string text = checked(
      [](const Tensors& in) {
        return Tensors{layer_norm(in[0], in[1], in[2]), rms_norm(in[0], in[1])};
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

class ThreadsRestored {
 public:
  ~ThreadsRestored() {
    set_threads(threads_);
    set_deterministic(deterministic_);
  }

 private:
  int threads_ = threads();
  bool deterministic_ = deterministic();
};

Tensors dense_step(const Tensors& in) {
  const Tensor y = relu(matmul(in[0], in[1]) + in[2]);
  const std::vector<Tensor> g = gradients(sum(y * y), {in[0], in[1]});
  return {y, g[0], g[1]};
}

Tensors conv_step(const Tensors& in) {
  const Tensor y = relu(conv2d(in[0], in[1], {.padding = {1, 1}}) + in[2]);
  const std::vector<Tensor> g = gradients(sum(y * y), {in[0], in[1]});
  return {y, g[0], g[1]};
}

void expect_same_bits(const Function& f, const Tensors& in) {
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
  expect_same_bits([](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; },
                   {values({18, 5, 33}, 1), values({18, 33, 7}, 2)});
}

TEST(CpuDeterministic, Convolutions) {
  expect_same_bits(conv_step, {values({5, 9, 8, 16}, 1), values({24, 3, 3, 16}, 2), values({24}, 3)});
}

TEST(CpuThreads, AProgramSurvivesAChangeOfThreads) {
  const ThreadsRestored restored;
  const Tensors in = {values({65, 130}, 1), values({130, 150}, 2), values({150}, 3)};
  set_threads(4);
  const auto program = detail::compile(dense_step, {.device = "cpu"});
  const Outcome reference = run_on("reference", dense_step, in);
  for (const int count : {4, 1, 2, 7}) {
    set_threads(count);
    const Tensors results = call(*program, in);
    for (std::size_t i = 0; i < results.size(); ++i)
      expect_close(results[i].to_vector<float>(), reference.results[i], std::to_string(count) + " threads");
  }
}

#ifdef VARVE_HAS_ONEDNN

// ---- products

TEST(CpuPatterns, ProductWithBiasAndActivation) {
  const Tensors in = {values({9, 140}, 1), values({140, 33}, 2), values({33}, 3)};
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> activations = {
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); }}};
  for (const auto& [name, activation] : activations) {
    expect_kernel(checked([&](const Tensors& t) { return Tensors{activation(matmul(t[0], t[1]) + t[2])}; }, in),
                  "onednn matmul+bias+" + name + "  <-");
    expect_kernel(checked([&](const Tensors& t) { return Tensors{activation(matmul(t[0], t[1]))}; }, in),
                  "onednn matmul+" + name + "  <-");
  }
  expect_kernel(checked(
                    [](const Tensors& t) {
                      return Tensors{t[2].reshape({1, 33}) + matmul(t[0], t[1])};
                    },
                    in),
                "onednn matmul+bias  <-");
}

TEST(CpuPatterns, NanIsNotHidden) {
  std::vector<float> x(2 * 140, 1.f);
  x[3] = NAN;
  const auto y = run_on("cpu", [](const Tensors& t) { return Tensors{relu(matmul(t[0], t[1]) + t[2])}; },
                        {tensor(x, Shape{2, 140}), ones({140, 33}) * -1, zeros({33})});
  expect_kernel(y.text, "onednn matmul+bias+relu  <-");
  EXPECT_TRUE(std::isnan(y.results[0][0]));
  EXPECT_EQ(y.results[0][33], 0);
  EXPECT_FALSE(std::signbit(y.results[0][33]));
}

TEST(CpuPatterns, ShortSumsLeaveTheActivationToTheNextGroup) {
  const std::string text = checked([](const Tensors& t) { return Tensors{relu(matmul(t[0], t[1]) + t[2])}; },
                                   {values({9, 40}, 1), values({40, 33}, 2), values({33}, 3)});
  expect_kernel(text, "onednn matmul+bias  <-");
}

TEST(CpuPatterns, WhatOthersReadIsNotHidden) {
  const Tensors in = {values({9, 140}, 1), values({140, 33}, 2), values({33}, 3)};
  const std::string text = checked(
      [](const Tensors& t) {
        const Tensor z = matmul(t[0], t[1]) + t[2];
        return Tensors{gelu(z), z * 2};
      },
      in);
  expect_kernel(text, "onednn matmul+bias  <-");
  expect_no_kernel(text, "+gelu");
  const std::string returned = checked(
      [](const Tensors& t) {
        const Tensor y = matmul(t[0], t[1]);
        return Tensors{y, y + t[2]};
      },
      in);
  expect_kernel(returned, "onednn matmul  <-");
}

TEST(CpuPatterns, ABiasForEachRowIsNoBias) {
  const std::string text = checked([](const Tensors& t) { return Tensors{matmul(t[0], t[1]) + t[2]}; },
                                   {values({9, 40}, 1), values({40, 9}, 2), values({9, 1}, 3)});
  expect_no_kernel(text, "+bias");
}

TEST(CpuPatterns, TransposedAndSlicedOperandsAreNotCopied) {
  const std::string text = checked(
      [](const Tensors& t) {
        return Tensors{matmul(transpose(t[0]), t[1].slice({Range{0, 40}, Range{3, 30}})),
                       matmul(t[2], t[2], {.transpose_b = true})};
      },
      {values({40, 9}, 1), values({40, 33}, 2), values({6, 5, 8}, 3)});
  expect_no_kernel(text, "copy");
}

TEST(CpuPatterns, OperandsWithoutAdjacentElements) {
  checked(
      [](const Tensors& t) {
        return Tensors{relu(matmul(t[0].slice({Range{0, kEnd, 2}, Range{0, kEnd, 2}}), t[1]) + t[2])};
      },
      {values({10, 280}, 1), values({140, 33}, 2), values({33}, 3)});
}

// ---- updates

struct Step {
  double weight_decay = 0;
  bool returned = false, clipped = false, tied = false;
};

// One step of y = x·w by SGD; gives the loss and the new weights.
std::pair<std::vector<std::vector<float>>, std::string> train(const std::string& device, const Step& how) {
  Variable w("w", values({40, 33}, 2));
  const Variable rate("rate", tensor(0.05f), false);
  const Tensor x = values({9, 40}, 1), back = values({9, 33}, 3);
  const Function f = [&](const Tensors& in) {
    auto [loss, grads] = value_and_grad(
        [&] {
          const Tensor y = matmul(in[0], w);
          Tensor total = sum(square(y));
          if (how.tied) total = total + sum(square(matmul(in[1], w, {.transpose_b = true})));
          return total;
        },
        {w});
    Tensor g = grads[0];
    if (how.clipped) g = g * minimum(1 / sqrt(sum(square(g))), 1);
    w.assign(sgd_update(w, g, {}, rate, {.weight_decay = how.weight_decay}).parameter);
    return how.returned ? Tensors{loss, g} : Tensors{loss};
  };
  const auto program = detail::compile(f, {.device = device});
  const Tensors in = {x, back};
  std::vector<std::vector<float>> results;
  for (int step = 0; step < 2; ++step) {
    for (const Tensor& t : call(*program, in)) results.push_back(t.to_vector<float>());
  }
  results.push_back(w.value().to_vector<float>());
  return {results, detail::text(*program, in)};
}

std::string trained(const Step& how) {
  const auto [got, text] = train("cpu", how);
  const auto want = train("reference", how).first;
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    expect_close(got[i], want[i], "result " + std::to_string(i) + "\n" + text);
  return text;
}

TEST(CpuUpdates, AGradientThatOnlyTheUpdateReadsIsNeverWritten) {
  const std::string text = trained({});
  expect_kernel(text, "onednn matmul+sgd  <-");
  expect_no_kernel(text, "copied back");
}

TEST(CpuUpdates, OtherReadersForbidIt) {
  expect_no_kernel(trained({.returned = true}), "onednn matmul+sgd  <-");
  expect_no_kernel(trained({.clipped = true}), "onednn matmul+sgd  <-");
  expect_no_kernel(trained({.tied = true}), "onednn matmul+sgd  <-");
  expect_no_kernel(trained({.weight_decay = 0.1}), "onednn matmul+sgd  <-");
}

TEST(CpuUpdates, AWeightThatIsItsOwnGradientsOperand) {
  // d/dw of sum(w·w) reads w twice.
  const auto step = [](const std::string& device) {
    Variable w("w", values({8, 8}, 2));
    const auto program = detail::compile(
        [&](const Tensors&) {
          const Tensor g = matmul(w, w, {.transpose_a = true});
          w.assign(sgd_update(w, g, {}, 0.1).parameter);
          return Tensors{};
        },
        {.device = device});
    call(*program, {});
    return w.value().to_vector<float>();
  };
  expect_close(step("cpu"), step("reference"), "w");
}

// ---- convolutions

TEST(CpuPatterns, ConvolutionWithBiasAndActivation) {
  const Tensors in = {values({2, 9, 8, 15}, 1), values({16, 3, 3, 15}, 2), values({16}, 3)};
  const std::string text = checked(
      [](const Tensors& t) {
        return Tensors{relu(conv2d(t[0], t[1], {.padding = {1, 1}}) + t[2])};
      },
      in);
  expect_kernel(text, "onednn conv2d+bias+relu  <-");
  const std::string gradients_text = checked(conv_step, in);
  expect_kernel(gradients_text, "onednn conv2d_input_grad");
  expect_kernel(gradients_text, "onednn conv2d_weight_grad");
}

TEST(CpuPatterns, ConvolutionsThatPadMoreThanTheKernelAreOurOwn) {
  const std::string text = checked(
      [](const Tensors& t) {
        return Tensors{conv2d(t[0], t[1], {.padding = {2, 2}})};
      },
      {values({2, 5, 4, 3}, 1), values({4, 2, 2, 3}, 2)});
  expect_kernel(text, "plain conv2d  <-");
  expect_kernel(text, "padding as wide as the kernel");
}

#endif  // VARVE_HAS_ONEDNN

}  // namespace
}  // namespace varve
