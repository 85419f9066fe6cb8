// What needs no GPU: programs are planned for a stand-in, and every kernel text they ask for compiles for real ones.
#include <gtest/gtest.h>

#include "backends/cuda/backend.h"
#include "backends/cuda/device/context.h"
#include "compiler/pipeline.h"
#include "cuda/compiles.h"
#include "cuda/gpu_here.h"
#include "runtime/compiled.h"
#include "varve/autodiff.h"
#include "varve/nn.h"
#include "varve/ops.h"
#include "varve/optim.h"
#include "varve/precision.h"

namespace varve::cuda {
namespace {

struct Case {
  std::string name;
  std::function<nn::Layer()> make;
  Shape input;
  DType dtype = f32;
  ProductType precision = f32;
};

std::shared_ptr<const compiler::Plan> plan_of(const Case& c, const backend::Backend& backend) {
  nn::Layer model = c.make();
  model->build(c.input, {.dtype = c.dtype});
  auto adam = optim::adam(1e-3).over(model->parameters());
  Ints batch{8};
  for (const std::int64_t size : c.input) batch.push_back(size);
  const auto step = [&](const std::vector<Tensor>& args) -> std::vector<Tensor> {
    const nn::Precision precision(c.precision.dtype);
    auto [loss, gradients] = value_and_grad(
        [&] { return cast(cross_entropy((*model)(args[0], Mode::train), args[1]), f32); }, model->parameters());
    adam.apply(gradients);
    return {loss};
  };
  runtime::Traced traced = runtime::trace(step, {{c.dtype, Shape(batch)}, {i32, {8}}});
  return compiler::compile(traced.graph, backend, {}, {.tf32 = c.precision.tf32});
}

std::vector<Case> cases() {
  const auto dense = [] {
    return std::make_shared<nn::Sequential>(
        nn::sequential(nn::flatten(), nn::dense(64, {.activation = nn::relu}), nn::dense(10)));
  };
  const auto image = [] {
    return std::make_shared<nn::Sequential>(nn::sequential(nn::conv2d(16, {.kernel = {3, 3}}), nn::batch_norm(),
                                                           nn::max_pool2d(2), nn::dropout(0.25), nn::flatten(),
                                                           nn::dense(10)));
  };
  const auto words = [] {
    return std::make_shared<nn::Sequential>(
        nn::sequential(nn::embedding(50, 16), nn::lstm(24, {.sequences = false}), nn::dense(10)));
  };
  return {{"dense", dense, {6, 6}},
          {"dense in tf32", dense, {6, 6}, f32, tf32},
          {"image", image, {12, 12, 3}},
          {"image in bf16", image, {12, 12, 3}, f32, bf16},
          {"words", words, {7}, i32}};
}

TEST(Planning, EveryTextOfATrainingStepCompiles) {
  if (gpu().present()) GTEST_SKIP() << kNotCollected;
  const auto backend = make_cuda_backend(0, false);
  for (const Case& c : cases()) {
    const auto plan = plan_of(c, *backend);
    EXPECT_GT(plan->steps.size(), 3u) << c.name;
    EXPECT_FALSE(plan->executes);
  }
  const std::vector<KernelText> texts = collected_texts();
  EXPECT_GT(texts.size(), 20u);
  for (const KernelText& text : texts) {
    expect_text_compiles(text, "sm_90a");
    // Other tests in this process may have asked for what is for the newest alone.
    const std::vector<NamedText> reached = reached_texts(text);
    const bool newest = std::any_of(reached.begin(), reached.end(),
                                    [](const NamedText& part) { return part.name == "kernels/tma.cuh"; });
    if (!newest) expect_text_compiles(text, "sm_80");
  }
}

TEST(Planning, ParametersAreUpdatedInOneLaunch) {
  const auto backend = make_cuda_backend(0, false);
  const auto plan = plan_of(cases()[0], *backend);
  std::size_t joined = 0;
  for (const compiler::PlanStep& step : plan->steps) joined += step.kernel == "generated, 4 in one";
  EXPECT_EQ(joined, 1u) << plan->explain;
}

}  // namespace
}  // namespace varve::cuda
