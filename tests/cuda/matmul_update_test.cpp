// Gradients that an optimiser's update takes up as they are computed, as whole programs beside the reference's. They
// run where there is a GPU, if only an emulated one.
#include <cstdlib>

#include "backends/update_rules.h"
#include "cuda/on_cuda.h"

namespace varve {
namespace {

struct Step {
  const Rule* rule = &rules()[0];
  std::int64_t batch = 9, in = 40, out = 36;
  DType weights = f32, products = f32;
  bool tf32 = false, known_rate = false, transposed = false, returned = false;
};

struct Stepped {
  std::vector<std::vector<float>> state;
  std::string text;
};

// Three steps: the first as it is, the others from a recording.
Stepped step_on(const std::string& device, const Step& how) {
  const Shape shape = how.transposed ? Shape{how.out, how.in} : Shape{how.in, how.out};
  Variable w("w", values(shape, 2).to(how.weights)), m("m", values(shape, 4).to(how.weights), false);
  Variable v("v", square(values(shape, 5)).to(how.weights), false);
  const Variable rate("rate", full({}, 0.05, how.weights), false);
  const bool one_state = std::string(how.rule->kernel).find("sgd_") != std::string::npos;
  const Function f = [&](const TensorList& t) {
    const Tensor g =
        (how.transposed ? matmul(t[1], t[0], {.transpose_a = true}) : matmul(t[0], t[1], {.transpose_a = true}))
            .to(how.weights);
    const Updated next = how.rule->update(w, g, m, v, how.known_rate ? Operand(0.05) : Operand(rate));
    w.assign(next.parameter);
    if (next.state.size() == 2) m.assign(next.state[0]);
    if (!next.state.empty()) (one_state ? m : v).assign(next.state.back());
    return how.returned ? TensorList{g} : TensorList{};
  };
  const auto program = detail::compile(f, {.device = device, .tf32 = how.tf32});
  const TensorList in = {values({how.batch, how.in}, 1).to(how.products),
                         values({how.batch, how.out}, 3).to(how.products)};
  for (int i = 0; i < 3; ++i) call(*program, in);
  Stepped result{{}, detail::text(*program, in)};
  for (const Variable* state : {&w, &m, &v}) result.state.push_back(state->value().to(f32).to_vector<float>());
  return result;
}

// Returns who claimed what.
std::string stepped(const Step& how) {
  const Stepped got = step_on("cuda", how), want = step_on("reference", how);
  // The reference rounds the gradient of narrow products; the kernel does not.
  const double tolerance = how.products == f32 && !how.tf32 ? 1e-5 : 4e-3;
  for (std::size_t i = 0; i < got.state.size(); ++i)
    expect_close(got.state[i], want.state[i], "state " + std::to_string(i) + "\n" + got.text, tolerance);
  return got.text;
}

void expect_taken(const Step& how) {
  SCOPED_TRACE(testing::Message() << how.rule->kernel << " " << how.batch << " " << how.in << " " << how.out);
  const std::string text = stepped(how);
  expect_kernel(text, std::string(how.rule->kernel) + "  <-");
  expect_no_kernel(text, "copied back");
}

// One more lever is left out while it lives.
class Without {
 public:
  explicit Without(const std::string& lever)
      : before_(std::getenv("VARVE_WITHOUT") ? std::getenv("VARVE_WITHOUT") : "") {
    setenv("VARVE_WITHOUT", (before_.empty() ? lever : before_ + "," + lever).c_str(), 1);
  }
  ~Without() { before_.empty() ? unsetenv("VARVE_WITHOUT") : setenv("VARVE_WITHOUT", before_.c_str(), 1); }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

 private:
  std::string before_;
};

class CudaUpdate : public OnCuda {
  const Without launches_{"launches"};  // small weights otherwise share one
};

TEST_F(CudaUpdate, AGradientThatOnlyTheUpdateReadsIsNeverWritten) {
  for (const Rule& rule : rules()) expect_taken({.rule = &rule});
}

TEST_F(CudaUpdate, AnySizes) {
  for (const Rule* rule : {&rules()[0], &rules()[5]}) {
    expect_taken({.rule = rule, .batch = 1, .in = 1, .out = 1});
    expect_taken({.rule = rule, .batch = 17, .in = 101, .out = 3});
    expect_taken({.rule = rule, .batch = 65, .in = 64, .out = 130});
    expect_taken({.rule = rule, .batch = 33, .in = 300, .out = 516});
  }
  expect_taken({.batch = 300, .in = 65, .out = 130});  // the library's, or our plain one
}

TEST_F(CudaUpdate, OnTensorCores) {
  for (const Rule* rule : {&rules()[0], &rules()[2]}) {
    for (const Step& how : {Step{.tf32 = true}, Step{.products = bf16}, Step{.products = f16}})
      for (const std::int64_t batch : {1, 63, 130}) {
        Step step = how;
        step.rule = rule;
        step.batch = batch;
        expect_taken(step);
        step.in = 300;
        step.out = 263;
        expect_taken(step);
      }
  }
}

// A layer x·w, both of its gradients for a target, and a step: the gradient of x, and w.
class TwoGradients {
 public:
  // What else there is: a late reader of w, a rate that follows from dx, a dx that is asked for after the update, an
  // activation before the layer and a bias before that, a product of dx with something of the new w.
  enum Also { nothing, weights, rate, later, activation, updated };
  explicit TwoGradients(std::string device, Also also = nothing, DType products = f32)
      : columns_(products == f32 ? 4096 : 1024),  // what counts as large
        w_("w", values({2048, columns_}, 2) * 0.1f),
        dx_("dx", zeros({4, 2048}), false),
        program_(detail::compile(
            [this, also, products](const TensorList& t) {
              const Tensor w = Tensor(w_).to(products), z = t[0].to(products), x = also == activation ? sigmoid(z) : z;
              const Tensor g = matmul(x, w) - t[1].to(products);
              Tensor dx = matmul(g, w, {.transpose_b = true});
              if (also == activation) dx = dx * (x * (1.0f - x));
              const Operand step = also == rate ? Operand(0.05f / (1.0f + sum(square(dx)))) : Operand(0.05);
              const Tensor next = sgd_update(w_, matmul(x, g, {.transpose_a = true}).to(f32), {}, step).parameter;
              w_.assign(next);
              if (also == updated) dx = dx * matmul(t[1].to(products), next.to(products), {.transpose_b = true});
              dx_.assign(dx.to(f32));
              if (also == later) return TensorList{};
              if (also == activation) return TensorList{sum(dx, {.axes = Axes{0}})};
              return also == weights ? TensorList{dx, sum(w)} : TensorList{dx};
            },
            {.device = std::move(device), .tf32 = true})) {}

  std::string text() { return detail::text(*program_, in_); }
  std::vector<float> run() {
    const TensorList results = call(*program_, in_);
    std::vector<float> all = dx_.value().to_vector<float>();
    for (const Tensor& more : {w_.value(), results.empty() ? Tensor(w_) : results[0].to(f32)}) {
      const std::vector<float> numbers = more.to_vector<float>();
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  }

 private:
  std::int64_t columns_;
  Variable w_, dx_;
  const TensorList in_ = {values({4, 2048}, 1), values({4, columns_}, 3)};
  std::shared_ptr<detail::CompiledFn> program_;
};

TEST_F(CudaUpdate, LargeWeightsAreReadOnceForBothGradients) {
  const Without tuning("tuning");  // each candidate that is tried costs time on an emulated GPU
  TwoGradients cuda("cuda"), reference("reference");
  expect_kernel(cuda.text(), "matmul+sgd_update+input gradient  <-");
  expect_close(cuda.run(), reference.run(), cuda.text(), 4e-3);
  // What else reads the weights must not find them changed.
  expect_no_kernel(TwoGradients("cuda", TwoGradients::weights).text(), "input gradient  <-");
  // An update that waits for the gradient of the input cannot be computed with it.
  expect_no_kernel(TwoGradients("cuda", TwoGradients::rate).text(), "input gradient  <-");
}

TEST_F(CudaUpdate, WhatFollowsTheGradientOfTheInputIsComputedWithIt) {
  const Without tuning("tuning");
  for (const DType products : {f32, bf16}) {
    TwoGradients cuda("cuda", TwoGradients::activation, products),
        reference("reference", TwoGradients::activation, products);
    const std::string text = cuda.text();
    expect_kernel(text, "matmul+sgd_update+input gradient+function+sums  <-");
    expect_no_kernel(text, "over [4, 2048] sum");
    expect_close(cuda.run(), reference.run(), text, products == f32 ? 4e-3 : 2e-2);
  }
  // What waits for the update cannot be computed with it.
  TwoGradients cuda("cuda", TwoGradients::updated), reference("reference", TwoGradients::updated);
  expect_kernel(cuda.text(), "matmul+sgd_update+input gradient  <-");
  expect_close(cuda.run(), reference.run(), cuda.text(), 4e-3);
}

// Weights for products of 16 bits are rounded on their way, where all who want them so can do that.
TEST_F(CudaUpdate, LargeWeightsAreReadAsTheyAreForProductsOf16Bits) {
  const Without tuning("tuning");
  TwoGradients cuda("cuda", TwoGradients::nothing, bf16), reference("reference", TwoGradients::nothing, bf16);
  const std::string text = cuda.text();
  expect_kernel(text, "tma matmul+function  <-");
  expect_kernel(text, "matmul+sgd_update+input gradient  <-");
  expect_no_kernel(text, "over [2048, 1024]");  // no copy of the weights is made
  expect_close(cuda.run(), reference.run(), text, 2e-2);
  TwoGradients late("cuda", TwoGradients::later, bf16), late_reference("reference", TwoGradients::later, bf16);
  expect_close(late.run(), late_reference.run(), late.text(), 2e-2);
  const std::string shared = TwoGradients("cuda", TwoGradients::weights, bf16).text();
  expect_kernel(shared, "over [2048, 1024]");
  expect_no_kernel(shared, "tma matmul");
  expect_no_kernel(shared, "input gradient  <-");
}

TEST_F(CudaUpdate, AKnownRateAndAnyOrderOfThePlainStep) {
  for (const Rule* rule : {&rules()[0], &rules()[1]}) {
    expect_taken({.rule = rule, .known_rate = true});
    expect_taken({.rule = rule, .batch = 300, .known_rate = true});
    expect_taken({.rule = rule, .transposed = true});
    expect_taken({.rule = rule, .weights = f64, .products = f64});
  }
}

TEST_F(CudaUpdate, OthersTakeTheRest) {
  expect_no_kernel(stepped({.rule = &rules()[3], .batch = 140}), "update  <-");
  expect_no_kernel(stepped({.returned = true}), "update  <-");
  setenv("VARVE_WITHOUT", "update-in-gemm", 1);
  expect_no_kernel(stepped({}), "update  <-");
}

TEST_F(CudaUpdate, TheSameBitsAtEveryRun) {
  const Step how{.rule = &rules()[4], .batch = 130, .in = 300, .out = 263, .tf32 = true};
  EXPECT_EQ(step_on("cuda", how).state, step_on("cuda", how).state);
}

}  // namespace
}  // namespace varve
