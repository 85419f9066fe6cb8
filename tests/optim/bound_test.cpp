#include "optim/problem.h"
#include "temporary_folder.h"

namespace varve::optim {
namespace {

std::vector<std::string> names_of(const std::vector<Variable>& variables) {
  std::vector<std::string> names;
  for (const Variable& v : variables) names.push_back(v.name());
  return names;
}

// A rule that changes nothing and shows what it was given.
Optimizer spy(std::vector<Optimizer::Slot>& seen) {
  return Optimizer({.name = "spy",
                    .state = {},
                    .update =
                        [&seen](const Optimizer::Slot& slot) {
                          seen.push_back(slot);
                          return Updated{slot.parameter, {}};
                        }},
                   0.5, 0.25);
}

TEST(Bound, StateIsNamedAfterTheParameters) {
  const Problem problem;
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of(sgd().over(problem.parameters()).state()), (Names{"step", "rate"}));
  EXPECT_EQ(names_of(sgd(0.1, {.momentum = 0.9}).over(problem.parameters()).state()),
            (Names{"velocity.fc.weight", "velocity.fc.bias", "step", "rate"}));
  const Bound bound = adam().over(problem.parameters());
  EXPECT_EQ(names_of(bound.state()), (Names{"m.fc.weight", "v.fc.weight", "m.fc.bias", "v.fc.bias", "step", "rate"}));
  EXPECT_EQ(bound.state()[0].type(), (TensorType{f32, {2, 3}}));
  EXPECT_EQ(bound.state()[0].value().to_vector<float>(), std::vector<float>(6, 0.f));
  EXPECT_FALSE(bound.state()[0].trainable());
  EXPECT_EQ(names_of(bound.parameters()), (Names{"fc.weight", "fc.bias"}));
}

TEST(Bound, CountsStepsAndSharesThemWithCopies) {
  Problem problem;
  Bound bound = adam(0.25).over(problem.parameters());
  EXPECT_EQ(bound.steps(), 0);
  EXPECT_EQ(bound.current_rate(), 0.25);
  Bound copy = bound;
  copy.apply(problem.gradients());
  copy.apply(problem.gradients());
  copy.set_rate(0.125);
  EXPECT_EQ(bound.steps(), 2);
  EXPECT_EQ(bound.current_rate(), 0.125);
  EXPECT_EQ(bound.rate().value().item<float>(), 0.125f);
  expect_error([&] { bound.set_rate(-1); }, "adam: rate is -1");
}

// SGD of rate 0.1 for two steps and 0.02 for three, in float64 (see rules_test.cpp for how).
TEST(Bound, ACompiledStepFollowsTheRate) {
  Problem problem;
  Bound bound = sgd(0.1).over(problem.parameters());
  auto step = compile([&] { bound.apply(problem.gradients()); });
  for (int i = 0; i < 5; ++i) {
    if (i == 2) bound.set_rate(0.02);
    step();
  }
  expect_near(problem.values(), {0.88118276, -1.68923712, -0.15065344, 2.9364368, 0.340593757, -1.05940862, 0.440374805,
                                 -0.267004668, 1.2412183});
  EXPECT_EQ(bound.steps(), 5);
}

// Nothing may stand between a gradient and its update unless it was asked for: the compiler joins the two only then.
TEST(Bound, PlainUpdatesSeeTheGradientItself) {
  Problem problem;
  std::vector<Optimizer::Slot> seen;
  const std::vector<Tensor> gradients = {ones({2, 3}) * 2, ones({3}) * 3};
  spy(seen).over(problem.parameters()).apply(gradients);
  ASSERT_EQ(seen.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(seen[i].gradient.node(), gradients[i].node());
    EXPECT_EQ(seen[i].rate.rank(), 0);
    EXPECT_EQ(seen[i].rate.item<float>(), 0.5f);
    EXPECT_EQ(seen[i].step.item<float>(), 1.f);
    EXPECT_EQ(seen[i].weight_decay, 0.25);
  }
}

TEST(Bound, GroupsTakeTheFirstThatMatches) {
  const Problem problem;
  std::vector<Optimizer::Slot> seen;
  const auto is_bias = [](const Variable& v) { return v.name().ends_with("bias"); };
  const auto any = [](const Variable&) { return true; };
  spy(seen)
      .group({.match = is_bias, .rate = 2, .weight_decay = 0})
      .group({.match = any, .rate = 0.5, .weight_decay = {}})
      .over(problem.parameters())
      .apply(problem.gradients());
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].rate.item<float>(), 0.25f);
  EXPECT_EQ(seen[0].weight_decay, 0.25);
  EXPECT_EQ(seen[1].rate.item<float>(), 1.f);
  EXPECT_EQ(seen[1].weight_decay, 0);
}

// SGD in float64: rate 0.1, weight decay 0.2; biases with half the rate and without decay.
TEST(Bound, GroupsChangeRateAndDecay) {
  const auto is_bias = [](const Variable& v) { return v.name().ends_with("bias"); };
  const Optimizer grouped = sgd(0.1, {.weight_decay = 0.2}).group({.match = is_bias, .rate = 0.5, .weight_decay = 0});
  const std::vector<double> expected = {0.724510285, -1.28269401, -0.502261794, 2.61156713, 0.534790531,
                                        -1.01967784, 0.443243208, -0.266441822, 1.29405785};
  expect_near(five_steps(grouped), expected);
  expect_near(five_compiled_steps(grouped), expected);
}

TEST(Bound, DecayOfWeightsOnly) {
  expect_near(five_steps(sgd(0.1, {.weight_decay = 0.2}).decay_weights_only()),
              {0.724510285, -1.28269401, -0.502261794, 2.61156713, 0.534790531, -1.01967784, 0.396225591, -0.284671568,
               0.922340874});
  // A group that only changes the rate leaves that alone; one that names a decay has its way.
  const Problem problem;
  const auto is_bias = [](const Variable& v) { return v.name() == "fc.bias"; };
  for (const bool named : {false, true}) {
    std::vector<Optimizer::Slot> seen;
    Group group{.match = is_bias, .rate = 3, .weight_decay = {}};
    if (named) group.weight_decay = 0.75;
    spy(seen).decay_weights_only().group(group).over(problem.parameters()).apply(problem.gradients());
    EXPECT_EQ(seen[0].weight_decay, 0.25);
    EXPECT_EQ(seen[1].weight_decay, named ? 0.75 : 0);
  }
}

// SGD of rate 0.1 in float64, g = clip(g, -0.75, 0.75), then g *= min(1, 1.5 / norm over both gradients).
TEST(Bound, Clipping) {
  struct Row {
    Optimizer optimizer;
    std::vector<double> expected;
  };
  const std::vector<Row> rows = {
      {sgd(0.1).clip_norm(1.5),
       {0.922561307, -1.79991573, 0.0649866624, 2.95931808, 0.224786722, -1.03871935, 0.461221046, -0.260690317,
        1.47982946}},
      {sgd(0.1).clip_value(0.75),
       {0.795245, -1.625, 0.125, 2.88109569, 0.375, -1.1023775, 0.396225591, -0.284671568, 1.625}},
      {sgd(0.1).clip_norm(1.5).clip_value(0.75),
       {0.806105822, -1.64947665, 0.149476649, 2.88849323, 0.350523351, -1.09694709, 0.401893835, -0.282180962,
        1.64947665}},
      {sgd(0.1).clip_norm(100),  // never reached
       {0.795245, -1.43445234, -0.50848, 2.88109569, 0.556294688, -1.1023775, 0.396225591, -0.284671568, 0.922340874}},
  };
  for (const Row& row : rows) {
    expect_near(five_steps(row.optimizer), row.expected);
    expect_near(five_compiled_steps(row.optimizer), row.expected);
  }
  EXPECT_EQ(rows[2].optimizer.clips_norm(), 1.5);
  EXPECT_EQ(rows[2].optimizer.clips_value(), 0.75);
}

TEST(Bound, TheNormIsThatBeforeClipping) {
  // √Σ(dw² + db²) of Problem in float64 at the start, and after each step with clip_norm(1.5).
  const std::vector<double> norms = {5.408688034, 4.976982261, 4.573831786};
  Problem problem;
  Bound bound = sgd(0.1).clip_norm(1.5).over(problem.parameters());
  auto step = compile([&] { return bound.apply_with_norm(problem.gradients()); });
  for (const double norm : norms) EXPECT_NEAR(step().item<float>(), norm, 1e-5);
  Problem other;
  Bound both = sgd(0.1).clip_norm(1.5).clip_value(0.75).over(other.parameters());
  EXPECT_NEAR(both.apply_with_norm(other.gradients()).item<float>(), norms[0], 1e-5);
}

TEST(Bound, ZeroGradientsSurviveClippingByNorm) {
  Problem problem;
  const std::vector<double> before = problem.values();
  sgd(0.1).clip_norm(1).over(problem.parameters()).apply({zeros({2, 3}), zeros({3})});
  EXPECT_EQ(problem.values(), before);
}

TEST(Bound, NarrowGradientsAreWidened) {
  Problem problem;
  Bound bound = sgd(0.5).over(problem.parameters());
  bound.apply({full({2, 3}, 0.5, bf16), full({3}, 2, f16)});
  expect_near(problem.values(), {0.75, -2.25, 0.25, 2.75, -0.25, -1.25, -0.5, -1.25, 1});
}

TEST(Bound, SavedStateGoesOnWhereItWas) {
  Problem first;
  Bound bound = adam(0.1).over(first.parameters());
  for (int i = 0; i < 3; ++i) bound.apply(first.gradients());
  Problem second;
  Bound resumed = adam(0.5).over(second.parameters());
  second.w.assign(first.w.value());
  second.b.assign(first.b.value());
  for (std::size_t i = 0; i < bound.state().size(); ++i) resumed.state()[i].assign(bound.state()[i].value());
  for (int i = 0; i < 2; ++i) resumed.apply(second.gradients());
  EXPECT_EQ(second.values(), five_steps(adam(0.1)));
  EXPECT_EQ(resumed.steps(), 5);
}

TEST(Bound, MistakesAreExplained) {
  Problem problem;
  Bound bound = adam().over(problem.parameters());
  const Tensor dw = zeros({2, 3}), db = zeros({3});
  expect_error([&] { bound.apply({dw}); }, "adam: expected 2 gradients, one for each parameter, got 1");
  expect_error([&] { bound.apply({dw, Tensor()}); }, "adam: the gradient of \"fc.bias\" is undefined");
  expect_error(
      [&] {
        bound.apply({db, dw});
      },
      "adam: the gradient of \"fc.weight\" has shape [3], but the parameter has [2, 3]");
  expect_error([&] { adam().over({problem.w, problem.w}); }, "\"fc.weight\" is given twice");
  expect_error([&] { adam().over({Variable("h", zeros({2}, bf16))}); },
               "parameter \"h\" is bf16 [2]; only f32 and f64");
  expect_error([&] { adam().clip_norm(-1); }, "adam: clip_norm is -1");
  expect_error([&] { adam().clip_value(-1); }, "adam: clip_value is -1");
  expect_error([&] { adam().group({}); }, "a group needs a match function");
  expect_error([&] { Optimizer({.name = "mine", .state = {}, .update = {}}, 1, 0); }, "\"mine\"");
  Bound wrong = Optimizer({.name = "mine",
                           .state = {"m"},
                           .update =
                               [](const Optimizer::Slot& s) {
                                 return Updated{s.parameter, {}};
                               }},
                          1, 0)
                    .over({problem.w});
  expect_error([&] { wrong.apply({dw}); }, "mine: its rule gave 0 states, but names 1");
  EXPECT_EQ(bound.steps(), 0);
  expect_error([] { Bound().apply({}); }, "bound to no parameters");
  expect_error([] { Bound().state(); }, "bound to no parameters");
}

TEST(Bound, StateGoesToAFileAndBack) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "adam.safetensors";
  Problem first, second;
  Bound from = adam(0.1).over(first.parameters());
  for (int i = 0; i < 3; ++i) from.apply(first.gradients());
  from.set_rate(0.05);
  from.save(path);
  second.w.assign(first.w.value());
  second.b.assign(first.b.value());
  Bound to = adam(0.1).over(second.parameters());
  to.load(path);
  EXPECT_EQ(to.steps(), 3);
  EXPECT_FLOAT_EQ(static_cast<float>(to.current_rate()), 0.05F);
  from.apply(first.gradients());
  to.apply(second.gradients());
  EXPECT_EQ(first.values(), second.values());
}

TEST(Bound, AnotherOptimizersStateIsRefusedAsAWhole) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "sgd.safetensors";
  const Variable w("w", zeros({2})), wide("w", zeros({3}));
  sgd(0.1, {.momentum = 0.9}).over({w}).save(path);
  Bound bound = adam().over({w});
  expect_error([&] { bound.load(path); }, "has no \"m.w\": is it the state of another optimiser, or of another model?");
  expect_error([&] { sgd(0.1, {.momentum = 0.9}).over({wide}).load(path); },
               "\"velocity.w\" is f32 [2], this optimiser needs f32 [3].");
  expect_error([&] { sgd(0.1).over({w}).load(path); }, "also has \"velocity.w\", which this optimiser does not keep");
  expect_error([&] { adam().over({w, wide}).save(path); }, "two parameters have the same name");
  EXPECT_EQ(bound.steps(), 0);
}

}  // namespace
}  // namespace varve::optim
