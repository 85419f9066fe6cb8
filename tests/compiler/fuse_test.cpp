// Selection, decomposition and generated groups.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/traced.h"

namespace varve::compiler {
namespace {

const TensorType kMatrix{f32, {8, 16}}, kRow{f32, {1, 16}};

std::shared_ptr<const Plan> plan_of(const detail::ProgramFn& fn, const std::vector<TensorType>& args) {
  return planned(traced(fn, args));
}

TEST(Fuse, AChainIsOneGroup) {
  const auto plan =
      plan_of([](const Tensors& in) { return Tensors{varve::tanh(varve::exp(in[0] * 2) + in[1])}; }, {kMatrix, kRow});
  EXPECT_EQ(plan->steps.size(), 1u) << plan->explain;
  EXPECT_EQ(plan->arena_bytes, 0u);
}

TEST(Fuse, AReductionJoinsWhatFeedsItAndEndsTheGroup) {
  const auto plan = plan_of(
      [](const Tensors& in) { return Tensors{varve::exp(sum(varve::exp(in[0]), {.axes = Axes{1}, .keep = true}))}; },
      {kMatrix});
  EXPECT_EQ(plan->steps.size(), 2u) << plan->explain;
  EXPECT_EQ(plan->steps[0].op, "exp+sum");
}

TEST(Fuse, ReductionsOverDifferentAxesAreDifferentGroups) {
  const auto plan = plan_of(
      [](const Tensors& in) {
        const Tensor e = varve::exp(in[0]);
        return Tensors{sum(e, {.axes = Axes{0}}), sum(e, {.axes = Axes{1}})};
      },
      {kMatrix});
  EXPECT_EQ(plan->steps.size(), 2u) << plan->explain;
}

TEST(Fuse, DifferentShapesAndTypesAreDifferentGroups) {
  const auto plan = plan_of(
      [](const Tensors& in) {
        return Tensors{varve::exp(in[0]), varve::exp(in[1]), in[2] + 1};
      },
      {kMatrix, kRow, {i32, {8, 16}}});
  EXPECT_EQ(plan->steps.size(), 3u) << plan->explain;
}

TEST(Fuse, ARoundingConversionEndsTheGroup) {
  const auto through = [](DType dtype) {
    return plan_of(
               [dtype](const Tensors& in) { return Tensors{varve::exp(cast(cast(varve::exp(in[0]), dtype), f32))}; },
               {kMatrix})
        ->steps.size();
  };
  EXPECT_EQ(through(bf16), 2u);
  EXPECT_EQ(through(f64), 3u);  // the way back is computed in f64
  EXPECT_EQ(through(i32), 3u);
}

// The reader of a rounded value sees it rounded.
TEST(Fuse, RoundingIsVisible) {
  for (const char* device : {"reference", "cpu"}) {
    auto f = varve::compile(
        [](const Tensor& x) {
          return std::pair(cast(cast(x + 0.0625f, bf16), f32) * 3, cast(cast(x * 2.6f, i32), f32) + 0.5f);
        },
        {.device = device});
    const auto [a, b] = f(tensor({1.001f, 2.3f}));
    EXPECT_EQ(a.to_vector<float>()[0], 3.1875f) << device;  // 1.0635 is 1.0625 in bf16
    EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{2.5f, 5.5f})) << device;
  }
}

// b feeds the first group, whose reduction feeds v: with v in b's group each would wait for the other.
TEST(Fuse, GroupsNeverWaitForEachOther) {
  const auto f = [](const Tensors& in) {
    const Tensor t = in[0] * in[0], s = sum(t, {.axes = Axes{0}, .keep = true}), b = varve::exp(in[1]);
    return Tensors{s, t * b, b * s};
  };
  EXPECT_NO_THROW(plan_of(f, {kMatrix, kRow}));
  const auto other_order = [&](const Tensors& in) {
    const Tensors r = f(in);
    return Tensors{r[1], r[2], r[0]};
  };
  EXPECT_NO_THROW(plan_of(other_order, {kMatrix, kRow}));
}

TEST(Fuse, AKernelWithManyNodesDoesNotClosePathsToo) {
  // A softmax between two elementwise nodes of one shape.
  const auto f = [](const Tensors& in) {
    const Tensor e = varve::exp(in[0]);
    return Tensors{e * softmax(e)};
  };
  EXPECT_NO_THROW(plan_of(f, {kMatrix}));
}

TEST(Fuse, LiteralsCostNoMemory) {
  const auto plan = plan_of([](const Tensors& in) { return Tensors{in[0] * 3 + 0.5}; }, {kMatrix});
  EXPECT_EQ(plan->steps.size(), 1u);
  EXPECT_EQ(plan->steps[0].in.size(), 1u);
}

TEST(Fuse, GroupsHaveABoundedNumberOfInputs) {
  std::vector<TensorType> types(100, kMatrix);
  const auto plan = plan_of(
      [](const Tensors& in) {
        Tensor total = in[0];
        for (std::size_t i = 1; i < in.size(); ++i) total = total + varve::exp(in[i]);
        return Tensors{total};
      },
      types);
  for (const PlanStep& step : plan->steps) EXPECT_LE(step.in.size(), 16u);
}

// Integers beyond 2^53 are no doubles.
TEST(Fuse, LargeIntegersStayExact) {
  const std::int64_t large = (std::int64_t{1} << 60) + 1;
  for (const char* device : {"reference", "cpu"}) {
    auto f = varve::compile([&](const Tensor& x) { return std::pair(x + full_int({}, large), full_int({2}, large)); },
                            {.device = device});
    const auto [a, b] = f(tensor(std::vector<std::int64_t>{0, 1}));
    EXPECT_EQ(a.to_vector<std::int64_t>(), (std::vector<std::int64_t>{large, large + 1})) << device;
    EXPECT_EQ(b.to_vector<std::int64_t>(), (std::vector<std::int64_t>{large, large})) << device;
  }
}

// An input that a reduction reads again and again must not be where its result goes.
TEST(Fuse, AReductionNeverOverwritesWhatItReads) {
  for (const char* device : {"reference", "cpu"}) {
    Variable v("v", tensor(std::vector<float>(64, 1.f), {64}));
    auto step =
        varve::compile([&](const Tensor& x) { v.assign(sum(x * v.value(), {.axes = Axes{0}})); }, {.device = device});
    step(ones({500, 64}));
    for (const float got : v.value().to_vector<float>()) ASSERT_EQ(got, 500.f) << device;
    auto chain = varve::compile(
        [](const Tensor& x, const Tensor& w) {
          const Tensor a = matmul(w, w);  // in the arena, read for the last time by the group
          return sum(x * a, {.axes = Axes{0}}) + 1;
        },
        {.device = device});
    for (const float got : chain(ones({300, 8, 8}), eye(8)).to_vector<float>())
      ASSERT_TRUE(got == 1.f || got == 301.f) << device;
  }
}

TEST(Fuse, SeveralOutputsInPlace) {
  for (const char* device : {"reference", "cpu"}) {
    auto f = varve::compile(
        [](const Tensor& x, const Tensor& w) {
          const Tensor m = matmul(x, w), a = m * 2, b = m + a * 3, c = a - m;
          return matmul(a, w) + matmul(b, w) * 10 + matmul(c, w) * 100;  // m: 1, a: 2, b: 7, c: 1
        },
        {.device = device});
    for (const float got : f(ones({8, 8}), eye(8)).to_vector<float>()) ASSERT_EQ(got, 172.f) << device;
  }
}

// ---- cheap work is done again where it is needed

// y = f(x·w), and the gradients of Σ(y·v)² by w and v: the derivative of f is elementwise in what the forward pass has,
// and y is kept for the gradient by v.
Tensors trained(const Tensors& in, const std::function<Tensor(const Tensor&)>& f) {
  const Tensor loss = sum(square(matmul(f(matmul(in[0], in[1])), in[2])));
  Tensors results = gradients(loss, {in[1], in[2]});
  results.push_back(loss);
  return results;
}

std::size_t forward_results(const std::function<Tensor(const Tensor&)>& f) {
  const auto plan =
      plan_of([&](const Tensors& in) { return trained(in, f); }, {{f32, {8, 16}}, {f32, {16, 16}}, {f32, {16, 16}}});
  for (const PlanStep& step : plan->steps)
    if (step.kernel.rfind("null group", 0) == 0) return step.out.size();
  return 0;
}

TEST(Sink, ACheapDerivativeIsNotStored) {
  EXPECT_EQ(forward_results([](const Tensor& x) { return relu(x); }), 1u);
  EXPECT_EQ(forward_results([](const Tensor& x) { return relu6(x); }), 1u);
  EXPECT_EQ(forward_results([](const Tensor& x) { return varve::tanh(x); }), 1u);
}

TEST(Sink, ACostlyOneIs) {
  EXPECT_EQ(forward_results([](const Tensor& x) { return gelu(x * 2); }), 2u);
}

TEST(Sink, WhatTheCallerAndKernelsReadStaysInMemory) {
  const auto plan = plan_of(
      [](const Tensors& in) {
        const Tensor e = varve::exp(in[0]), mask = e * 2;
        return Tensors{mask, cumsum(e, 0), sum(softmax(e) * mask)};
      },
      {kMatrix});
  EXPECT_EQ(plan->steps[0].out.size(), 2u) << plan->text;
}

// Read again after the update, the state would have to be copied.
TEST(Sink, NothingIsComputedAgainFromStateThatChanges) {
  Variable v("v", zeros({8, 16}).eval());
  const auto plan = plan_of(
      [&](const Tensors& in) {
        const Tensor scaled = v.value() * 2 + in[0];
        v.assign(scaled * 0.5);
        return Tensors{sum(softmax(scaled) * scaled)};
      },
      {kMatrix});
  EXPECT_TRUE(plan->copies.empty()) << plan->explain;
}

TEST(Sink, GivesTheSameNumbers) {
  const Tensor x = reshape(arange(0, 128) * 0.05f - 3, {8, 16}), w = reshape(varve::sin(arange(0, 256)), {16, 16});
  std::vector<std::vector<float>> results;
  for (const char* device : {"reference", "cpu"}) {
    auto f = varve::compile(
        [](const Tensor& a, const Tensor& b, const Tensor& c) {
          const Tensors r = trained({a, b, c}, [](const Tensor& t) { return relu6(hardtanh(t) * 4) + leaky_relu(t); });
          return std::pair(r[0], r[1]);
        },
        {.device = device});
    results.push_back(f(x, w, w).first.to_vector<float>());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    ASSERT_NEAR(results[0][i], results[1][i], 1e-3 * (1 + std::abs(results[0][i])));
}

// ---- selection

TEST(Select, ARefusalListsEveryReason) {
  const OpDef odd =
      define({.name = "odd_one", .doc = "", .family = "user", .shape = [](const Call& call) { return call.in; }});
  auto f = varve::compile([&](const Tensor& x) { return odd.call({x})[0]; }, {.device = "cpu"});
  try {
    f(ones({2, 3}));
    FAIL() << "nobody computes it";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(contains(text, "backend 'cpu'")) << text;
    EXPECT_TRUE(contains(text, "odd_one(f32 [2, 3]) -> f32 [2, 3]")) << text;
    EXPECT_TRUE(contains(text, "Refusals:")) << text;
    EXPECT_TRUE(contains(text, "no kernel for this operator")) << text;
  }
}

TEST(Select, WhatNobodyClaimsIsDecomposed) {
  const OpDef twice = define({.name = "twice_by_parts",
                              .doc = "",
                              .family = "user",
                              .shape = [](const Call& call) { return call.in; },
                              .decompose = [](const Tensors& in, const Attrs&) { return Tensors{in[0] + in[0]}; }});
  auto f = varve::compile([&](const Tensor& x) { return twice.call({x})[0] * 3; }, {.device = "cpu"});
  EXPECT_EQ(f(tensor({1.f, 2.f})).to_vector<float>(), (std::vector<float>{6, 12}));
  EXPECT_TRUE(contains(f.text(ones({2})), "add(")) << f.text(ones({2}));
}

TEST(Select, ADecompositionThatNeverEndsIsAnError) {
  static const OpDef* self = nullptr;
  const OpDef endless = define({.name = "endless",
                                .doc = "",
                                .family = "user",
                                .shape = [](const Call& call) { return call.in; },
                                .decompose = [](const Tensors& in, const Attrs&) { return self->call({in[0] + 1}); }});
  self = &endless;
  auto f = varve::compile([&](const Tensor& x) { return endless.call({x})[0]; }, {.device = "cpu"});
  EXPECT_THROW(f(ones({2})), Error);
}

TEST(Select, TheNullDeviceCompilesEverythingAndComputesNothing) {
  auto f = varve::compile([](const Tensor& x) { return softmax(matmul(x, x)); }, {.device = "null"});
  EXPECT_GT(f.peak_bytes(ones({4, 4})), 0);
  EXPECT_TRUE(contains(f.text(ones({4, 4})), "null matmul"));
  EXPECT_THROW(f(ones({4, 4})), Error);
}

}  // namespace
}  // namespace varve::compiler
