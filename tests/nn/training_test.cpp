// What layers do in training: masks, statistics, carried states, precision, and the same numbers with compile and
// without.
#include "helpers.h"

namespace varve::nn_tests {
namespace {

std::vector<float> values(const Tensor& x) { return x.to_vector<float>(); }

nn::Sequential dropping(std::int64_t seed) {
  auto model = nn::sequential(nn::dropout(0.5), nn::dropout(0.25));
  model.build({50}, {.seed = seed});
  return model;
}

TEST(Dropout, MasksChangeEveryStepAndRepeatWithTheSeed) {
  auto model = dropping(1), again = dropping(1), other = dropping(2);
  const Tensor x = ones({2, 50});
  const std::vector<float> first = values(model(x, Mode::train)), second = values(model(x, Mode::train));
  EXPECT_NE(first, second);
  EXPECT_EQ(values(again(x, Mode::train)), first);
  EXPECT_EQ(values(again(x, Mode::train)), second);
  EXPECT_NE(values(other(x, Mode::train)), first);
  EXPECT_EQ(values(model(x)), values(x));
}

TEST(Dropout, CompiledStepsDrawTheSameMasks) {
  auto model = dropping(1), compiled = dropping(1);
  auto step = compile([&](Tensor x) { return compiled(x, Mode::train); });
  const Tensor x = ones({2, 50});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(values(step(x)), values(model(x, Mode::train)));
  EXPECT_EQ(compiled.variable("0.counter").value().item<std::int64_t>(), (std::int64_t{1} << 32) + 3);
}

TEST(Dropout, TheSameLayerTwiceDrawsTwice) {
  auto drop = nn::dropout(0.5);
  const Tensor x = ones({1, 60});
  auto step = compile([&](Tensor in) { return concat({drop(in, Mode::train), drop(in, Mode::train)}); });
  drop.build({60});
  const std::vector<Tensor> both = split(step(x), 2);
  EXPECT_NE(values(both[0]), values(both[1]));
}

struct Trained {
  std::vector<float> losses, weights, statistics;
};

// A few steps of a small network of many kinds of layers.
Trained train(bool compiled) {
  auto model = nn::sequential(nn::conv2d(4, {.padding = "same"}), nn::batch_norm({.activation = nn::relu}),
                              nn::max_pool2d(2), nn::dropout(0.2), nn::reshape({3, 12}), nn::gru(5),
                              nn::transformer_block(5, {.heads = 1, .dropout = 0.1}), nn::flatten(), nn::dense(3));
  model.build({6, 6, 2}, {.seed = 4});
  const std::vector<Variable> parameters = model.parameters();
  const auto step = [&](Tensor x, Tensor labels) {
    auto [loss, grads] = value_and_grad([&] { return cross_entropy(model(x, Mode::train), labels); }, parameters);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      Variable(parameters[i]).assign(sgd_update(parameters[i], grads[i], {}, 0.1).parameter);
    return loss;
  };
  auto fast = compile(step);
  Trained trained;
  const Tensor labels = tensor({0, 2, 1, 1});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = wave(i, {4, 6, 6, 2});
    trained.losses.push_back((compiled ? fast(x, labels) : step(x, labels)).item<float>());
  }
  trained.weights = values(model.variable("0.weight"));
  trained.statistics = values(model.variable("1.running_var"));
  return trained;
}

TEST(Training, CompiledEqualsUncompiled) {
  const Trained slow = train(false), fast = train(true);
  EXPECT_LT(slow.losses.back(), slow.losses.front());
  expect_near(tensor(fast.losses), tensor(slow.losses), 1e-5);
  expect_near(tensor(fast.weights), tensor(slow.weights), 1e-5);
  expect_near(tensor(fast.statistics), tensor(slow.statistics), 1e-5);
  EXPECT_NE(slow.statistics[0], 1);
}

TEST(Training, CompiledStatefulLstmEqualsOneLongSequence) {
  for (const double dropout : {0.0, 0.5}) {
    auto whole = nn::lstm(5, {.layers = 2, .bidirectional = false, .dropout = dropout});
    auto parts = nn::lstm(5, {.layers = 2, .stateful = true, .dropout = dropout});
    whole.build({6, 3}, {.seed = 1, .batch = 2});
    parts.build({2, 3}, {.seed = 1, .batch = 2});
    auto step = compile([&](Tensor x) { return parts(x); });
    const Tensor x = wave(0, {2, 6, 3});
    std::vector<Tensor> ys;
    for (std::int64_t t = 0; t < 6; t += 2) {
      const Tensor part = x.slice({{}, {t, t + 2}});
      ys.push_back((t == 2 ? parts(part) : step(part)).eval());
    }
    expect_near(concat(ys, 1), whole(x));
    parts.reset_state();
    expect_near(step(x.slice({{}, {0, 2}})), ys[0]);
    EXPECT_EQ(message_of([&] {
                parts(zeros({3, 2, 3}));
              }),
              "lstm: carries the states of 2 sequences from batch to batch, got a batch of 3 (input shape [3, 2, 3]). "
              "Build with {.batch = 3}.");
    parts.build({2, 3}, {.batch = 3});
    EXPECT_EQ(parts(zeros({3, 2, 3})).shape(), (Shape{3, 2, 5}));
  }
}

TEST(Training, BuildLeavesCarriedStatesAlone) {
  auto model = nn::gru(3, {.stateful = true});
  model.build({2, 2});
  model(wave(0, {2, 2, 2})).eval();
  const std::vector<float> before = values(model.variable("h_l0"));
  EXPECT_NE(before[0], 0);
  model.build({2, 2});
  model.summarize({.batch = 7});
  EXPECT_EQ(values(model.variable("h_l0")), before);
}

TEST(Precision, ComputesIn16BitsFromMasterWeights) {
  auto model = nn::sequential(nn::conv2d(4, {.padding = "same"}), nn::batch_norm({.activation = nn::relu}),
                              nn::reshape({36, 4}), nn::lstm(6), nn::transformer_block(6, {.heads = 2}),
                              nn::layer_norm(), nn::flatten(), nn::dense(3));
  model.build({6, 6, 2}, {.seed = 4});
  const Tensor x = wave(0, {4, 6, 6, 2});
  const Tensor exact = model(x).eval();
  EXPECT_EQ(exact.dtype(), f32);
  {
    const nn::Precision precision(bf16);
    EXPECT_EQ(nn::Precision::current(), bf16);
    const Tensor y = model(x);
    EXPECT_EQ(y.dtype(), bf16);
    expect_near(y, exact, 0.1);
    EXPECT_NE(values(y.to(f32)), values(exact));
    auto [loss, grads] =
        value_and_grad([&] { return mean(varve::square(model(x, Mode::train).to(f32))); }, model.parameters());
    for (const Tensor& gradient : grads) EXPECT_EQ(gradient.dtype(), f32);
  }
  EXPECT_EQ(nn::Precision::current(), f32);
  for (const nn::NamedVariable& named : model.named_variables())
    EXPECT_EQ(named.variable.type().dtype, f32) << named.path;
  EXPECT_EQ(message_of([] { nn::Precision precision(i32); }), "precision: expected f32, bf16, f16 or f64, got i32.");
}

}  // namespace
}  // namespace varve::nn_tests
