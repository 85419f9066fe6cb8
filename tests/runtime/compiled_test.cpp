// Compiled functions: what a trace records, what a program bakes in, which programs are kept.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <thread>
#include <tuple>

#include "runtime/engine.h"
#include "runtime/training.h"

namespace varve::runtime {
namespace {

class Compiled : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override { set_device("cpu"); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Compiled, testing::Values("reference", "cpu"));

TEST_P(Compiled, ReadsAndAssignsVariables) {
  Variable v("v", tensor({1.f, 2.f}));
  auto f = compile([&](const Tensor& x) {
    v.assign(v + x);
    return v * 10;  // what the step has made of it so far
  });
  EXPECT_EQ(f(ones({2})).to_vector<float>(), (Floats{20, 30}));
  EXPECT_EQ(f(ones({2})).to_vector<float>(), (Floats{30, 40}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{3, 4}));
  v.assign(zeros({2}));
  EXPECT_EQ(f(ones({2})).to_vector<float>(), (Floats{10, 10}));
  EXPECT_EQ(f.programs(), 1u);
}

TEST_P(Compiled, VariablesAreOneInputHoweverOftenTheyAreRead) {
  Variable v("tied", ones({4, 4}).eval());
  const Variable again = v;
  auto f = compile([&](const Tensor& x) { return matmul(matmul(x, v), again); });
  const std::string text = f.text(ones({4, 4}));
  EXPECT_EQ(text.find("name=\"tied\""), text.rfind("name=\"tied\"")) << text;
}

TEST_P(Compiled, CapturedTensorsAreConstants) {
  Tensor c = tensor({1.f, 2.f});
  const Tensor pending = varve::exp(zeros({2}));
  auto f = compile([&](const Tensor& x) { return x + c + pending; });
  EXPECT_EQ(f(zeros({2})).to_vector<float>(), (Floats{2, 3}));
  c = tensor({100.f, 100.f});
  EXPECT_EQ(f(zeros({2})).to_vector<float>(), (Floats{2, 3}));
  EXPECT_TRUE(contains(f.text(zeros({2})), "name=\"constant\""));
}

TEST_P(Compiled, AStridedConstantIsBoundAsItIs) {
  const Tensor c = transpose(tensor({{1.f, 2.f}, {3.f, 4.f}}));
  c.eval();
  auto f = compile([&](const Tensor& x) { return x + c; });
  EXPECT_EQ(f(zeros({2, 2})).to_vector<float>(), (Floats{1, 3, 2, 4}));
}

TEST_P(Compiled, ArgumentsMayBeViewsAndPending) {
  auto f = compile([](const Tensor& x) { return x * 2; });
  const Tensor a = tensor({{1.f, 2.f}, {3.f, 4.f}});
  EXPECT_EQ(f(transpose(a)).to_vector<float>(), (Floats{2, 6, 4, 8}));
  EXPECT_EQ(f(a + 1).to_vector<float>(), (Floats{4, 6, 8, 10}));
  EXPECT_EQ(f.programs(), 1u);
}

TEST_P(Compiled, ResultsBelongToTheCaller) {
  auto f = compile([](const Tensor& x) { return x * 2; });
  std::vector<Tensor> all;
  for (int i = 0; i < 12; ++i) all.push_back(f(full({3}, i)));
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(all[static_cast<std::size_t>(i)].to_vector<float>()[0], 2.f * static_cast<float>(i));
  const Tensor view = all[3].slice({{0, 1}});
  view.eval();
  all.clear();
  for (int i = 0; i < 12; ++i) f(full({3}, 100));
  EXPECT_EQ(view.to_vector<float>()[0], 6.f);
}

TEST_P(Compiled, TrainsAsUncompiledCodeDoes) {
  SmallNet one, other;
  const Tensor x = images(), y = classes();
  auto step = compile([&](const Tensor& a, const Tensor& b) { return one.step(a, b); });
  float first = 0, last = 0;
  for (int i = 0; i < 6; ++i) {
    const float compiled = step(x, y).item<float>(), plain = other.step(x, y).item<float>();
    ASSERT_NEAR(compiled, plain, 2e-3 * (1 + std::abs(plain))) << i;
    (i ? last : first) = compiled;
  }
  EXPECT_LT(last, first);
  EXPECT_EQ(one.adam.step.value().item<float>(), 6.f);
  EXPECT_EQ(other.adam.step.value().item<float>(), 6.f);
}

TEST_P(Compiled, WhatChangesBetweenStepsIsReadFromMemory) {
  Variable rate("rate", tensor(0.5f)), w("w", zeros({2}));
  auto f = compile([&](const Tensor& g) { w.assign(w - g * rate); });
  f(ones({2}));
  rate.assign(tensor(0.25f));
  f(ones({2}));
  EXPECT_EQ(w.value().to_vector<float>(), (Floats{-0.75, -0.75}));
  EXPECT_EQ(f.programs(), 1u);
}

TEST_P(Compiled, RandomCountersAdvanceAndRepeat) {
  Variable counter("counter", tensor(std::int64_t{0}));
  auto draw = compile([&] {
    const Tensor drawn = uniform({5}, {.seed = 9, .stream = "a", .counter = counter});
    counter.assign(counter + 1);
    return drawn;
  });
  const Floats first = draw().to_vector<float>(), second = draw().to_vector<float>();
  EXPECT_NE(first, second);
  counter.assign(tensor(std::int64_t{0}));
  EXPECT_EQ(draw().to_vector<float>(), first);
  EXPECT_EQ(uniform({5}, {.seed = 9, .stream = "a"}).to_vector<float>(), first);  // and without compile
}

TEST(CompiledRandom, DrawsTheSameOnEveryDevice) {
  const auto drawn = [](const char* device) {
    auto f = compile(
        [] {
          return Tensors{uniform({1000}, {.seed = (std::int64_t{1} << 60) + 3}), normal({1000}, {.seed = -4}),
                         cast(bernoulli({99}, 0.3), f32), dropout(ones({500}), 0.4, {.seed = 8}),
                         cast(permutation(50, {.seed = 2}), f32)};
        },
        {.device = device});
    std::vector<Floats> all;
    for (const Tensor& t : f()) all.push_back(t.to_vector<float>());
    return all;
  };
  EXPECT_EQ(drawn("cpu"), drawn("reference"));
}

// ---- reading and errors

TEST_P(Compiled, AReadInsideATraceThrowsAtThatLine) {
  auto f = compile([](const Tensor& x) {
    const Tensor y = x * 2;
    if (y.item<float>() > 0) return y;
    return x;
  });
  const std::string text = error_of([&] { f(tensor(1.f)); });
  EXPECT_TRUE(contains(text, "inside a traced function")) << text;
  EXPECT_TRUE(contains(text, "multiply")) << text;
  EXPECT_EQ((tensor(1.f) + 1).item<float>(), 2.f);  // the trace is over
  const Tensor ready = tensor(3.f);
  auto g = compile([&](const Tensor& x) { return x * ready.item<float>(); });  // has a value: may be read
  EXPECT_EQ(g(tensor(2.f)).item<float>(), 6.f);
}

TEST_P(Compiled, ATensorOfATraceIsNoUseAfterIt) {
  Tensor kept;
  auto f = compile([&](const Tensor& x) {
    kept = x * 2;
    return x;
  });
  f(ones({2}));
  EXPECT_TRUE(contains(error_of([&] { kept.eval(); }), "after the trace ended"));
  auto g = compile([&](const Tensor& x) { return x + kept; });
  EXPECT_THROW(g(ones({2})), Error);
}

TEST_P(Compiled, ErrorsInTheFunctionComeThrough) {
  bool fail = true;
  Variable v("v", ones({2}));
  auto f = compile([&](const Tensor& x) {
    v.assign(v + x);
    if (fail) throw Error("mine");
    return x;
  });
  EXPECT_EQ(error_of([&] { f(ones({2})); }), "mine");
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{1, 1}));
  fail = false;
  f(ones({2}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{2, 2}));
  auto undefined = compile([](const Tensor&) { return Tensor(); });
  EXPECT_THROW(undefined(ones({2})), Error);
}

TEST_P(Compiled, OneInsideAnotherIsPartOfIt) {
  Variable v("v", zeros({2}));
  auto inner = compile([&](const Tensor& x) {
    v.assign(v + x);
    return x * 2;
  });
  auto outer = compile([&](const Tensor& x) { return inner(inner(x)); });
  EXPECT_EQ(outer(ones({2})).to_vector<float>(), (Floats{4, 4}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{3, 3}));
  EXPECT_EQ(inner.programs(), 0u);
}

// ---- programs

TEST_P(Compiled, ATailBatchIsOneMoreProgram) {
  SmallNet net;
  auto step = compile([&](const Tensor& x, const Tensor& y) { return net.step(x, y); });
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 0; i < 2; ++i) step(images(16), classes(16));
    step(images(5), classes(5));
  }
  EXPECT_EQ(step.programs(), 2u);
  EXPECT_EQ(net.adam.step.value().item<float>(), 6.f);
}

TEST_P(Compiled, ProgramsAreBounded) {
  auto f = compile([](const Tensor& x) { return varve::exp(x) + sum(x); });
  for (std::int64_t n = 1; n <= 100; ++n)
    ASSERT_NEAR(f(ones({n})).to_vector<float>()[0], 2.7182817f + static_cast<float>(n), 1e-4);
  EXPECT_LE(f.programs(), 16u);
  EXPECT_NEAR(f(ones({1})).item<float>(), 3.7182817f, 1e-5);
}

TEST_P(Compiled, ThreadsMayCallOneFunction) {
  Variable calls("calls", tensor(0.f));
  auto f = compile([&](const Tensor& x) {
    calls.assign(calls + 1);
    return matmul(x, x) + 1;
  });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const float scale = static_cast<float>(t * 100 + i);
        const Tensor r = f((eye(4 + i % 3) * scale));
        if (r.to_vector<float>()[0] != scale * scale + 1) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(calls.value().item<float>(), 200.f);
}

TEST_P(Compiled, SignaturesOfAllKinds) {
  Variable v("v", zeros({}));
  auto nothing = compile([&] { v.assign(v + 1); });
  nothing();
  EXPECT_EQ(v.value().item<float>(), 1.f);
  auto many = compile([](const Tensor& a, const Tensor& b) { return std::tuple(a + b, a - b, a * b); });
  const auto [p, m, t] = many(tensor(3.f), tensor(2.f));
  EXPECT_EQ(p.item<float>() * 100 + m.item<float>() * 10 + t.item<float>(), 516.f);
  auto list = compile([](const Tensor& a) { return Tensors{a, a + 1}; });
  EXPECT_EQ(list(tensor(1.f))[1].item<float>(), 2.f);
  EXPECT_THROW(compile([](const Tensor& a) { return a; }, {.device = "abacus"})(ones({})), Error);
}

TEST(CompiledDevices, UnknownOnesAreListed) {
  EXPECT_TRUE(contains(error_of([] { set_device("abacus"); }), "Known devices: "));
  EXPECT_EQ(device(), "cpu");
}

// What the environment asks for is printed: who claimed what, and what was captured.
TEST(CompiledExplainDeathTest, ListsKernelsAndCapturedConstants) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("VARVE_EXPLAIN", "1", 1);
        const Tensor table = ones({3, 7});
        auto f = compile([&](const Tensor& x) { return matmul(x, table); }, {.name = "lookup"});
        f(ones({2, 3}));
        std::exit(0);
      },
      testing::ExitedWithCode(0), "lookup(.|\n)*captured constant f32 \\[3, 7\\](.|\n)*matmul");
}

TEST_P(Compiled, TakesAndGivesVectorsMapsAndTuples) {
  using Named = std::map<std::string, Tensor>;
  int traces = 0;
  auto f = compile([&](const std::vector<Tensor>& xs, const Named& named) {
    ++traces;
    Tensor total = named.at("bias");
    for (const Tensor& x : xs) total = total + x;
    return std::tuple<Tensor, Named>{total, {{"twice", total * 2}, {"last", xs.back()}}};
  });
  const Named bias = {{"bias", ones({2})}};
  for (int i = 0; i < 2; ++i) {
    auto [total, rest] = f(std::vector<Tensor>{tensor({1.f, 2.f}), tensor({10.f, 20.f})}, bias);
    EXPECT_EQ(total.to_vector<float>(), (Floats{12, 23}));
    EXPECT_EQ(rest.at("twice").to_vector<float>(), (Floats{24, 46}));
    EXPECT_EQ(rest.at("last").to_vector<float>(), (Floats{10, 20}));
  }
  EXPECT_EQ(traces, 1);
  auto [longer, rest] = f(std::vector<Tensor>{ones({2}), ones({2}), ones({2})}, bias);
  EXPECT_EQ(longer.to_vector<float>(), (Floats{4, 4}));
  EXPECT_EQ(traces, 2);
  EXPECT_EQ(f.programs(), 2u);
  EXPECT_GT(f.peak_bytes(std::vector<Tensor>{ones({2})}, bias), 0);
}

TEST_P(Compiled, GenericFunctionsTakeWhatTheyAreGiven) {
  auto f = compile([](auto a, auto b) {
    if constexpr (std::is_same_v<decltype(a), Tensor>)
      return a * b;
    else
      return std::array<Tensor, 2>{a[0] + b, a[1] - b};
  });
  EXPECT_EQ(f(tensor({3.f}), tensor({4.f})).item<float>(), 12);
  Variable v("v", tensor({5.f}));
  EXPECT_EQ(f(v, tensor({4.f})).item<float>(), 20);
  const auto both = f(std::array<Tensor, 2>{tensor({1.f}), tensor({2.f})}, tensor({3.f}));
  EXPECT_EQ(both[0].item<float>(), 4);
  EXPECT_EQ(both[1].item<float>(), -1);
}

// What a function returns may follow from the shapes of its arguments.
TEST_P(Compiled, ResultsOfAnyNumber) {
  auto rows = compile([](const std::array<Tensor, 1>& x) {
    std::vector<Tensor> all;
    for (std::int64_t i = 0; i < x[0].dim(0); ++i) all.push_back(x[0][i] + 1);
    return all;
  });
  for (const std::int64_t n : {2, 3, 2})
    EXPECT_EQ(rows(std::array<Tensor, 1>{zeros({n, 4})}).size(), static_cast<std::size_t>(n));
}

}  // namespace
}  // namespace varve::runtime
