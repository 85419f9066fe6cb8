// Gradients of functions and closures, on every device, compiled or not.
#include "varve/autodiff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "text_checks.h"
#include "varve/compile.h"
#include "varve/ops.h"

namespace varve {
namespace {

using test::contains;

using Floats = std::vector<float>;
using List = std::vector<Tensor>;

const Tensor& sample() {
  static const Tensor a = tensor({{1.f, 2.f}, {3.f, 4.f}});
  return a;
}

class OnEachDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override { set_device("cpu"); }
};
using Autodiff = OnEachDevice;
INSTANTIATE_TEST_SUITE_P(Devices, Autodiff, testing::Values("reference", "cpu"));

TEST_P(Autodiff, FirstSecondAndThirdOrder) {
  auto f = [](const Tensor& x) { return sum(x * x * x); };
  auto df = [&](const Tensor& x) { return sum(grad(f)(x)); };
  auto ddf = [&](const Tensor& x) { return sum(grad(df)(x)); };
  EXPECT_EQ(grad(f)(sample()).to_vector<float>(), (Floats{3, 12, 27, 48}));
  EXPECT_EQ(grad(df)(sample()).to_vector<float>(), (Floats{6, 12, 18, 24}));
  EXPECT_EQ(grad(ddf)(sample()).to_vector<float>(), (Floats{6, 6, 6, 6}));
  const auto [y, dy] = value_and_grad(f)(sample());
  EXPECT_EQ(y.item<float>(), 100.f);
  EXPECT_EQ(dy.to_vector<float>(), (Floats{3, 12, 27, 48}));
}

TEST_P(Autodiff, BroadcastAxesAreSummed) {
  const Tensor row = tensor({1.f, 2.f});
  const Tensor g = grad([&](const Tensor& r) { return sum(sample() * r); })(row);
  EXPECT_EQ(g.to_vector<float>(), (Floats{4, 6}));
  const Tensor s = grad([&](const Tensor& r) { return sum(sample() + r); })(tensor(1.f));
  EXPECT_EQ(s.shape(), Shape{});
  EXPECT_EQ(s.item<float>(), 4.f);
}

TEST_P(Autodiff, OverVariables) {
  Variable w("w", tensor({2.f, 3.f})), b("b", tensor(1.f)), unused("unused", zeros({3}));
  const auto [loss, grads] = value_and_grad([&] { return sum(w * w + b); }, {w, b, unused});
  EXPECT_EQ(loss.item<float>(), 15.f);
  EXPECT_EQ(grads[0].to_vector<float>(), (Floats{4, 6}));
  EXPECT_EQ(grads[1].item<float>(), 2.f);
  EXPECT_EQ(grads[2].to_vector<float>(), (Floats{0, 0, 0}));
}

TEST_P(Autodiff, TiedWeightsAreOne) {
  Variable w("w", tensor({2.f}));
  const Variable again = w;
  const auto [loss, grads] = value_and_grad([&] { return sum(w * again); }, {w});
  EXPECT_EQ(grads[0].item<float>(), 4.f);
  const auto [other, both] = value_and_grad([&] { return sum(w * again); }, {w, again});  // listed twice
  EXPECT_EQ(both[0].item<float>(), 4.f);
  EXPECT_EQ(both[1].item<float>(), 4.f);
}

TEST_P(Autodiff, AssignmentsInsideAreFollowed) {
  Variable w("w", tensor({2.f}));
  const auto [loss, grads] = value_and_grad(
      [&] {
        w.assign(w * 3);
        return sum(w * w);
      },
      {w});
  EXPECT_EQ(loss.item<float>(), 36.f);
  EXPECT_EQ(grads[0].item<float>(), 36.f);  // d(9 w²)/dw
  EXPECT_EQ(w.value().item<float>(), 6.f);
}

TEST_P(Autodiff, ReadingInsideDoesNotCutTheGradient) {
  const Tensor g = grad([](const Tensor& x) {
    const Tensor y = x * x;
    EXPECT_EQ(y.to_vector<float>()[1], 4.f);
    return sum(y * y);
  })(sample());
  EXPECT_EQ(g.to_vector<float>(), (Floats{4, 32, 108, 256}));
}

TEST_P(Autodiff, VjpEvenAfterItsOutputWasRead) {
  const Pullback p = vjp(
      [](const List& in) {
        return List{in[0] * in[1], varve::sin(in[0])};
      },
      {tensor({2.f, 3.f}), tensor({5.f, 7.f})});
  EXPECT_EQ(p.outputs[0].to_vector<float>(), (Floats{10, 21}));
  for (int twice = 0; twice < 2; ++twice) {
    const List dx = p.pull({ones({2}), zeros({2})});
    EXPECT_EQ(dx[0].to_vector<float>(), (Floats{5, 7}));
    EXPECT_EQ(dx[1].to_vector<float>(), (Floats{2, 3}));
  }
  EXPECT_THROW(p.pull({ones({2})}), Error);
}

TEST_P(Autodiff, VjpOfACheckpointAroundACompiledFunction) {
  auto inner = compile([](const Tensor& x) { return x * x; });
  const Pullback p = vjp(checkpoint_many([&](const List& in) { return List{inner(in[0]) * 2}; }), {tensor({2.f, 3.f})});
  EXPECT_EQ(p.outputs[0].to_vector<float>(), (Floats{8, 18}));
  EXPECT_EQ(p.pull({ones({2})})[0].to_vector<float>(), (Floats{8, 12}));
}

// ---- gradients() of tensors that were computed before

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_P(Autodiff, AGradientThroughWhatWasReadIsRefused) {
  const Tensor x = tensor({1.f, 2.f});
  const Tensor y = sum(x * x);
  EXPECT_EQ(gradients(y, {x})[0].to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(y.item<float>(), 5.f);
  EXPECT_TRUE(contains(refusal([&] { gradients(y, {x}); }), "computed already"));

  // In the middle of a chain, and beside a part that is still a graph.
  const Tensor h = exp(x);
  h.eval();
  EXPECT_TRUE(contains(refusal([&] { gradients(sum(h * 2), {x}); }), "exp"));
  EXPECT_THROW(gradients(sum(h * x), {x}), Error);
  // Two reads later it is still known.
  const Tensor later = h * 3;
  later.eval();
  EXPECT_THROW(gradients(sum(later), {x}), Error);
  EXPECT_THROW(gradients(sum(later), {h}), Error);
}

TEST_P(Autodiff, WhatWasReadIsAConstantForOthers) {
  const Tensor w = tensor({1.f, 2.f});
  const Tensor data = exp(tensor({0.f, 0.f}));  // newer than w, and does not depend on it
  data.eval();
  EXPECT_EQ(gradients(sum(w * data), {w})[0].to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(gradients(sum(data * 2), {w})[0].to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(gradients(sum(data * 2), {data})[0].to_vector<float>(), (Floats{2, 2}));
  const Tensor still = stop_gradient(w * 5), chosen = cast(argmax(w), f32);  // no gradient flows through these
  still.eval();
  chosen.eval();
  EXPECT_EQ(gradients(sum(w * still) * chosen, {w})[0].to_vector<float>(), (Floats{5, 10}));
}

TEST_P(Autodiff, AChainThatWasComputedOnTheWayIsRefused) {
  const Tensor x = tensor({1.f});
  Tensor y = x;
  for (int i = 0; i < 12000; ++i) y = y + 1;
  EXPECT_THROW(gradients(sum(y), {x}), Error);
  const Tensor g = grad([](const Tensor& start) {
    Tensor z = start;
    for (int i = 0; i < 12000; ++i) z = z + 1;
    return sum(z);
  })(x);
  EXPECT_EQ(g.item<float>(), 1.f);
}

TEST_P(Autodiff, ACompiledResultIsRefusedToo) {
  Variable w("w", tensor({2.f, 3.f}));
  auto f = compile([&](const Tensor& t) { return sum(t * t * w); });
  const Tensor x = tensor({1.f, 2.f}), other = ones({2});
  const Tensor y = f(x);
  EXPECT_TRUE(contains(refusal([&] { gradients(y, {x}); }), "compiled"));
  EXPECT_THROW(gradients(y * 2, {w.value()}), Error);
  EXPECT_EQ(gradients(sum(other * y), {other})[0].to_vector<float>(), (Floats{14, 14}));
  EXPECT_EQ(grad([&](const Tensor& t) { return f(t); })(x).to_vector<float>(), (Floats{4, 12}));
  // A compiled call computes its pending arguments.
  const Tensor pending = x * 3;
  f(pending);
  EXPECT_THROW(gradients(sum(pending), {x}), Error);
}

TEST_P(Autodiff, StopGradient) {
  const Tensor g = grad([](const Tensor& x) { return sum(stop_gradient(x) * x); })(sample());
  EXPECT_EQ(g.to_vector<float>(), (Floats{1, 2, 3, 4}));
}

TEST_P(Autodiff, SelectionAndIntegersStopIt) {
  const Tensor g =
      grad([](const Tensor& x) { return sum(where(x > 2, x * x, x)) + sum(cast(argmax(x), f32)); })(sample());
  EXPECT_EQ(g.to_vector<float>(), (Floats{1, 1, 6, 8}));
}

TEST_P(Autodiff, WhatIsAskedWrongly) {
  EXPECT_THROW(grad([](const Tensor& x) { return x * 2; })(sample()), Error);              // no scalar
  EXPECT_THROW(grad([](const Tensor& x) { return sum(x); })(tensor({1, 2})), Error);       // integers
  EXPECT_THROW(grad([](const Tensor& x) { return sum(cast(x, i32)); })(sample()), Error);  // integer result
  EXPECT_THROW(gradients({sample()}, {}, {sample()}), Error);
  EXPECT_THROW(gradients({sum(sample())}, {ones({2})}, {sample()}), Error);  // seed of another shape
}

TEST_P(Autodiff, CustomGradient) {
  auto clipped = custom_gradient([](const List& in) { return List{in[0] * in[0]}; },
                                 [](const List& in, const List& out, const List& dys) {
                                   EXPECT_EQ(out[0].shape(), in[0].shape());
                                   return List{clip(2 * in[0] * dys[0], -5, 5)};
                                 });
  const auto f = [&](const Tensor& x) { return sum(clipped({x})[0]); };
  EXPECT_EQ(f(sample()).item<float>(), 30.f);
  EXPECT_EQ(grad(f)(sample()).to_vector<float>(), (Floats{2, 4, 5, 5}));
  auto program = compile([&](const Tensor& x) { return grad(f)(x); });
  EXPECT_EQ(program(sample()).to_vector<float>(), (Floats{2, 4, 5, 5}));
  auto wrong = custom_gradient([](const List& in) { return List{in[0]}; },
                               [](const List&, const List&, const List&) { return List{}; });
  EXPECT_THROW(grad([&](const Tensor& x) { return sum(wrong({x})[0]); })(sample()), Error);
}

TEST_P(Autodiff, OfACompiledFunction) {
  Variable w("w", tensor(3.f));
  auto f = compile([&](const Tensor& x) { return sum(x * x * w); });
  EXPECT_EQ(f(sample()).item<float>(), 90.f);
  EXPECT_EQ(grad([&](const Tensor& x) { return f(x); })(sample()).to_vector<float>(), (Floats{6, 12, 18, 24}));
  const auto [loss, grads] = value_and_grad([&] { return f(sample()); }, {w});
  EXPECT_EQ(loss.item<float>(), 90.f);
  EXPECT_EQ(grads[0].item<float>(), 30.f);
}

TEST_P(Autodiff, OfAnOperatorKnownByItsParts) {
  const OpDef cube = define({.name = "cube_by_parts",
                             .doc = "",
                             .family = "user",
                             .shape = [](const Call& call) { return call.in; },
                             .decompose = [](const List& in, const Attrs&) { return List{in[0] * in[0] * in[0]}; }});
  EXPECT_EQ(grad([&](const Tensor& x) { return sum(cube.call({x})[0]); })(sample()).to_vector<float>(),
            (Floats{3, 12, 27, 48}));
}

// ---- what a gradient costs

TEST(AutodiffCost, AGradientNobodyAsksForIsNotComputed) {
  Variable first("first", normal({4, 3, 3, 3}, {.seed = 1}).eval()),
      second("second", normal({4, 3, 3, 4}, {.seed = 2}).eval());
  auto step = compile([&](const Tensor& x) {
    return value_and_grad([&] { return sum(conv2d(relu(conv2d(x, first)), second)); }, {first, second}).second;
  });
  const Tensor x = ones({2, 8, 8, 3});
  const std::string text = step.text(x);
  // One for the second convolution's input; none for the image.
  std::size_t input_gradients = 0;
  for (std::size_t at = text.find("conv2d_input_grad("); at != std::string::npos;
       at = text.find("conv2d_input_grad(", at + 1))
    ++input_gradients;
  EXPECT_FALSE(contains(text, " : f32 [2, 8, 8, 3]   # gradient of")) << text;
  EXPECT_TRUE(contains(text, "gradient of conv2d")) << text;
  EXPECT_LE(input_gradients, 2u);  // once in the graph, once in the list of kernels
}

TEST(AutodiffCost, ConstantsTakeNone) {
  auto f = compile(
      [](const Tensor& x, const Tensor& c) { return grad([&](const Tensor& y) { return sum(matmul(y, c)); })(x); });
  const std::string text = f.text(ones({3, 4}), ones({4, 5}));
  EXPECT_FALSE(contains(text, " : f32 [4, 5]   # gradient of")) << text;
}

// ---- checkpoints

Tensor deep(const Tensor& x, const Variable& w) {
  Tensor y = x;
  for (int i = 0; i < 6; ++i) y = softmax(matmul(y, w)) * 3;
  return y;
}

TEST_P(Autodiff, CheckpointGivesTheSameGradientsForVariablesToo) {
  Variable w("w", normal({4, 4}, {.seed = 1}).eval());
  const Tensor x = normal({3, 4}, {.seed = 2}).eval();
  const auto run = [&](bool kept) {
    const std::function<Tensor(const Tensor&)> f = [&](const Tensor& y) { return deep(y, w); };
    List all = value_and_grad([&] { return sum(square(kept ? f(x) : checkpoint(f)(x))); }, {w}).second;
    all.push_back(grad([&](const Tensor& y) { return sum(square(kept ? f(y) : checkpoint(f)(y))); })(x));
    return all;
  };
  const List plain = run(true), again = run(false);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const Floats a = plain[i].to_vector<float>(), b = again[i].to_vector<float>();
    for (std::size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(a[j], b[j], 1e-5);
  }
}

// The function itself is called once: what it refers to may be gone when the gradient is recorded.
TEST_P(Autodiff, CheckpointDoesNotCallItsFunctionAgain) {
  int calls = 0;
  const Tensor x = tensor({1.f, 2.f}), w = tensor({3.f, 4.f});
  Tensor y;
  {
    auto factor = std::make_unique<Tensor>(w * 2);
    const std::function<Tensor(const Tensor&)> f = [&](const Tensor& t) {
      ++calls;
      return exp(t) * *factor;
    };
    y = sum(checkpoint(f)(x));
  }
  const List g = gradients(y, {x, w});
  EXPECT_EQ(calls, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    const float e = std::exp(x.to_vector<float>()[i]);
    EXPECT_NEAR(g[0].to_vector<float>()[i], e * 2 * w.to_vector<float>()[i], 1e-4);
    EXPECT_NEAR(g[1].to_vector<float>()[i], e * 2, 1e-4);
  }
}

TEST(Checkpoint, ComputesAgainAndHoldsLess) {
  Variable w("w", normal({64, 64}, {.seed = 1}).eval());
  const auto program = [&](bool kept) {
    return compile([&w, kept](const Tensor& x) {
      const std::function<Tensor(const Tensor&)> block = [&w](const Tensor& y) { return deep(y, w); };
      return value_and_grad(
                 [&] {
                   Tensor y = x;
                   for (int i = 0; i < 6; ++i) y = kept ? block(y) : checkpoint(block)(y);
                   return sum(y);
                 },
                 {w})
          .second[0];
    });
  };
  auto plain = program(true), again = program(false);
  const Tensor x = ones({512, 64});
  const auto products = [&](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find("= matmul("); at != std::string::npos; at = text.find("= matmul(", at + 1)) ++count;
    return count;
  };
  EXPECT_GE(products(again.text(x)),
            products(plain.text(x)) + 30);  // 36 forward products a second time, or all but the last
  EXPECT_LT(again.peak_bytes(x), plain.peak_bytes(x) * 2 / 3) << again.peak_bytes(x) << " of " << plain.peak_bytes(x);
  const Floats a = plain(x).to_vector<float>(), b = again(x).to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3);
}

// A random counter and a running statistic inside: the mask is drawn again as it was, the statistic counted once.
TEST_P(Autodiff, CheckpointSeesItsVariablesAsTheyWere) {
  for (const bool compiled : {false, true}) {
    Variable counter("counter", tensor(std::int64_t{5}), false), calls("calls", tensor(0.f), false);
    const std::function<Tensor(const Tensor&)> noisy = [&](const Tensor& x) {
      const Tensor mask = uniform({64}, {.seed = 3, .counter = counter});
      counter.assign(counter + 1);
      calls.assign(calls + 1);
      return square(x * mask);
    };
    const auto step = [&](const Tensor& x) {
      const auto [value, slope] = value_and_grad([&](const Tensor& y) { return sum(checkpoint(noisy)(y)); })(x);
      return std::pair(value, slope);
    };
    const auto [value, slope] = compiled ? compile(step)(ones({64})) : step(ones({64}));
    EXPECT_EQ(counter.value().item<std::int64_t>(), 6);
    EXPECT_EQ(calls.value().item<float>(), 1.f);
    EXPECT_NEAR(sum(slope).item<float>(), 2 * value.item<float>(), 1e-3);  // of Σ (x m)² at x = 1
  }
}

TEST_P(Autodiff, OfSeveralArguments) {
  const auto f = [](const Tensor& x, const Tensor& y) { return sum(x * x * y); };
  const auto [dx, dy] = grad(f)(tensor({2.f, 3.f}), tensor({5.f, 7.f}));
  EXPECT_EQ(dx.to_vector<float>(), (Floats{20, 42}));
  EXPECT_EQ(dy.to_vector<float>(), (Floats{4, 9}));
  const auto [value, grads] = value_and_grad(f)(tensor({2.f}), tensor({5.f}));
  EXPECT_EQ(value.item<float>(), 20);
  EXPECT_EQ(std::get<1>(grads).item<float>(), 4);
}

TEST_P(Autodiff, OfVectorsAndMaps) {
  using Named = std::map<std::string, Tensor>;
  const auto f = [](const Named& w, const List& xs) { return sum(w.at("a") * xs[0] + w.at("b") * xs[1]); };
  const auto [dw, dxs] = grad(f)(Named{{"a", tensor({2.f})}, {"b", tensor({3.f})}}, List{tensor({5.f}), tensor({7.f})});
  EXPECT_EQ(dw.at("a").item<float>(), 5);
  EXPECT_EQ(dw.at("b").item<float>(), 7);
  EXPECT_EQ(dxs[1].item<float>(), 3);
}

}  // namespace
}  // namespace varve
