// The check tells rounding from another network: with made-up losses, and with small networks that are really trained.
#include "bench/equity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "varve/varve.h"

namespace varve::bench {
namespace {

const Losses kReference = {7, 6, 5, 4, 3};

Losses off_by(const std::vector<double>& relative) {
  Losses losses = kReference;
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] *= 1 + relative[i];
  return losses;
}
bool same(const Losses& losses, const std::vector<Losses>& perturbed = {}) {
  return compare_losses(losses, kReference, loss_bounds(kReference, perturbed)).objection.empty();
}

TEST(Equity, ACalmNetworkKeepsTheNarrowBounds) {
  EXPECT_TRUE(same(off_by({9e-5, 9e-4, 9e-4, 9e-4, 9e-4})));
  EXPECT_FALSE(same(off_by({2e-4, 0, 0, 0, 0})));  // nothing has amplified the first loss
  EXPECT_FALSE(same(off_by({0, 0, 0, 2e-3, 0})));
  EXPECT_FALSE(same(off_by({0, 0, 0, 2e-3, 0}), {off_by({0, 0, 1e-6, 1e-6, 1e-6})}));
}

TEST(Equity, TheBoundGrowsWithThePerturbedRuns) {
  const std::vector<Losses> perturbed = {off_by({0, 1e-6, 2e-5, -2e-4, 1e-5}), off_by({0, 1e-6, 1e-5, 1e-4, 3e-4})};
  EXPECT_TRUE(same(off_by({0, 0, 0, 3e-3, 4e-3}), perturbed));
  EXPECT_FALSE(same(off_by({0, 2e-3, 0, 0, 0}), perturbed));  // before rounding has grown
  EXPECT_FALSE(same(off_by({2e-4, 0, 0, 0, 0}), perturbed));
  const std::vector<double> bounds = loss_bounds(kReference, perturbed);
  EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end()));
}

TEST(Equity, TheBoundHasAnEnd) {
  const std::vector<Losses> wild = {off_by({0.5, 0.5, 0.5, 0.5, 0.5}), {7, NAN, INFINITY, 4, 3}};
  EXPECT_FALSE(same(off_by({0, 0, 0, 0, 0.02}), wild));
  EXPECT_FALSE(same(off_by({2e-4, 0, 0, 0, 0}), wild));
  EXPECT_TRUE(same(off_by({0, 0, 0, 0, 0.009}), wild));
}

TEST(Equity, LossesThatAreNoNumbersAreNoAgreement) {
  for (const double loss : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    Losses losses = kReference;
    losses[4] = loss;
    EXPECT_FALSE(same(losses));
  }
  EXPECT_FALSE(same({7, 6, 5}));
  EXPECT_NE(prediction_objection(NAN, 1), "");
  EXPECT_NE(prediction_objection(1.1, 1), "");
  EXPECT_EQ(prediction_objection(1.01, 1), "");
}

// ---- real networks

// What somebody may build differently without a change of the number of parameters.
struct Variant {
  double epsilon = 1e-5, momentum = 0.1, rate = 0.05, sgd_momentum = 0;
  bool train_bias = true, shortcut_activation = true;
  std::int64_t seed = 0;
  std::string device = "cpu";
  double noise = 0;  // relative, of the weights
};

// A residual network with batch norm, deep for its size.
nn::Layer residual_network(const Variant& v) {
  const auto norm = [&](nn::Activation activation) {
    return nn::batch_norm({.momentum = v.momentum, .epsilon = v.epsilon, .activation = std::move(activation)});
  };
  auto net = nn::Sequential();
  net.push(nn::conv2d(8, {.bias = false})).push(norm(nn::relu));
  for (int block = 0; block < 6; ++block) {
    auto body = nn::Sequential();
    body.push(nn::conv2d(8, {.bias = false})).push(norm(nn::relu)).push(nn::conv2d(8, {.bias = false})).push(norm({}));
    std::function<Tensor(const Tensor&)> after;
    if (v.shortcut_activation) after = [](const Tensor& x) { return relu(x); };
    net.push(nn::residual(std::move(body), nullptr, after));
  }
  net.push(nn::flatten()).push(nn::dense(10));
  return nn::layer(std::move(net));
}

struct Trained {
  Losses losses = {};
  double prediction = 0;
};

Trained trained(const Variant& v) {
  const nn::Layer model = residual_network(v);
  model->build({6, 6, 3}, {.seed = v.seed});
  std::int64_t draw = 77;
  std::vector<Variable> updated;
  for (Variable& parameter : model->parameters()) {
    if (v.noise > 0) {
      const Tensor up = cast(uniform(parameter.shape(), {.seed = ++draw}) < 0.5, f32);
      parameter.assign(parameter.value() * (1.0 + v.noise * (2.0 * up - 1.0)));
    }
    if (v.train_bias || parameter.shape().rank() > 1) updated.push_back(parameter);
  }
  auto sgd = optim::sgd(v.rate, {.momentum = v.sgd_momentum}).over(updated);
  auto step = compile(
      [&](Tensor x, Tensor y) {
        const auto [loss, gradients] =
            value_and_grad([&] { return cross_entropy((*model)(x, Mode::train), y); }, updated);
        sgd.apply(gradients);
        return loss;
      },
      {.device = v.device});
  Trained result;
  Tensor first;
  for (int i = 0; i < 5; ++i) {
    const Tensor x = normal({16, 6, 6, 3}, {.seed = 2 * i});
    if (i == 0) first = x;
    result.losses.push_back(step(x, cast(uniform({16}, {.seed = 2 * i + 1}) * 9.99, i32)).item<float>());
  }
  result.prediction = std::sqrt(mean(square((*model)(first, Mode::infer))).item<float>());
  return result;
}

std::string objection(const Trained& given) {
  static const Trained reference = trained({});
  static const std::vector<Losses> perturbed = {trained({.noise = 0x1p-23}).losses};
  const std::string why =
      compare_losses(given.losses, reference.losses, loss_bounds(reference.losses, perturbed)).objection;
  return why.empty() ? prediction_objection(given.prediction, reference.prediction) : why;
}

// Plain loops in double round quite differently from vectors in float.
TEST(Equity, TheSameNetworkRoundedOtherwiseIsTheSame) {
  EXPECT_EQ(objection(trained({.device = "reference"})), "");
  EXPECT_EQ(objection(trained({.noise = 0x1p-22})), "");
}

TEST(Equity, OtherNetworksAreRefused) {
  EXPECT_NE(objection(trained({.epsilon = 1e-3})), "") << "Keras' own epsilon";
  EXPECT_NE(objection(trained({.momentum = 0.01})), "") << "Keras' own momentum of the statistics";
  EXPECT_NE(objection(trained({.momentum = 0})), "") << "statistics that are not kept";
  EXPECT_NE(objection(trained({.rate = 0.055})), "") << "a rate 10% too high";
  EXPECT_NE(objection(trained({.sgd_momentum = 0.9})), "") << "another optimiser";
  EXPECT_NE(objection(trained({.train_bias = false})), "") << "biases, scales and shifts that stay as they were";
  EXPECT_NE(objection(trained({.shortcut_activation = false})), "") << "no activation after the sum";
  EXPECT_NE(objection(trained({.seed = 1})), "") << "other first weights";
}

}  // namespace
}  // namespace varve::bench
