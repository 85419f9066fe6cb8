// The rate finder: what it suggests, that it stops in time, and that it leaves no trace in the model.
#include <gtest/gtest.h>

#include <cmath>

#include "train/report.h"
#include "varve/train.h"

namespace varve::train {
namespace {

// Two classes that a straight line parts.
data::Dataset points(std::int64_t count) {
  const Tensor x = normal({count, 2}, {.seed = 3});
  const Tensor y = (sum(x, {.axes = Axes{-1}}) > 0).to(i32);
  return data::from_tensors(x.eval(), y.eval());
}

nn::Sequential network() {
  return nn::sequential(nn::dense(8, {.activation = nn::relu}), nn::batch_norm(), nn::dropout(0.25), nn::dense(2));
}

TEST(RateFinder, SteepestPartBeforeTheMinimum) {
  // Index:                          0   1    2    3  4     5    6     (falls by 1.5 around 3, then rises)
  const std::vector<double> losses = {5, 4.9, 4.5, 3, 2.75, 2.5, 9};
  const std::vector<double> rates = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  // Differences over two steps at 1…4: -0.5, -1.9, -1.75, -0.5.
  EXPECT_EQ(steepest_rate(rates, losses), 1e-4);
  EXPECT_EQ(steepest_rate({1e-2, 1e-1, 1}, {1, 2, 3}), 0);  // never falls
  EXPECT_EQ(steepest_rate({}, {}), 0);
}

TEST(RateFinder, FindsAUsableRate) {
  nn::Sequential model = network();
  const RateFinder found = find_rate(
      model, points(256), {.optimizer = optim::sgd(), .batch = 16, .from = 1e-4, .to = 1e4, .steps = 60, .seed = 5});
  ASSERT_EQ(found.rates.size(), found.losses.size());
  ASSERT_GT(found.rates.size(), 20u);
  EXPECT_DOUBLE_EQ(found.rates[0], 1e-4);
  EXPECT_NEAR(found.rates[1] / found.rates[0], std::pow(1e8, 1.0 / 59), 1e-12);
  EXPECT_GT(found.suggestion, 1e-3);
  EXPECT_LT(found.suggestion, 1e2);
  for (const double loss : found.losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_NE(found.svg.find("<svg"), std::string::npos);
  EXPECT_NE(found.svg.find("stroke-dasharray"), std::string::npos);
}

// Losses that differ from batch to batch: a fall is one that stands out from that.
TEST(RateFinder, APlateauHasNoSteepestPart) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<double> rates, flat, falling;
    data::Random random(seed, 0, 0);
    for (int i = 0; i < 100; ++i) {
      const double at = i / 99.0, noise = 0.1 * random.normal();
      rates.push_back(std::pow(10, -7 + 8 * at));
      const double blown = at > 0.93 ? (at - 0.93) * 50 : 0;
      flat.push_back(2.3 + noise + blown);
      falling.push_back(2.3 - 1.5 / (1 + std::exp((0.6 - at) * 30)) + noise + blown);  // steepest at 0.6
    }
    EXPECT_EQ(steepest_rate(rates, flat), 0) << seed;
    EXPECT_NEAR(std::log10(steepest_rate(rates, falling)), -7 + 8 * 0.6, 0.6) << seed;
  }
}

TEST(RateFinder, SaysWhenThereIsNoDescent) {
  // Rates too small to learn anything.
  nn::Sequential model = network();
  const RateFinder found = find_rate(
      model, points(256), {.optimizer = optim::sgd(), .batch = 16, .from = 1e-12, .to = 1e-9, .steps = 60, .seed = 5});
  EXPECT_EQ(found.suggestion, 0);
  EXPECT_NE(found.svg.find("<svg"), std::string::npos);
  EXPECT_EQ(found.svg.find("stroke-dasharray"), std::string::npos);
}

TEST(RateFinder, SmoothsWithoutABiasTowardsZero) {
  // A rate too small to matter: every loss is ln 2 within noise, also the first.
  nn::Sequential model = nn::sequential(nn::dense(2, {.weight_init = nn::init::zeros()}));
  const RateFinder found =
      find_rate(model, points(64), {.optimizer = optim::sgd(), .batch = 64, .from = 1e-12, .to = 1e-10, .steps = 10});
  ASSERT_EQ(found.losses.size(), 10u);
  for (const double loss : found.losses) EXPECT_NEAR(loss, std::log(2.0), 1e-6);
}

TEST(RateFinder, StopsWhenTheLossDiverges) {
  nn::Sequential model = nn::sequential(nn::dense(1));
  const Tensor x = normal({64, 4}, {.seed = 1});
  const data::Dataset line = data::from_tensors(x.eval(), sum(x, {.axes = Axes{-1}}).eval());
  const RateFinder found = find_rate(
      model, line, {.loss = mse, .optimizer = optim::sgd(), .batch = 16, .from = 1e-4, .to = 1e6, .steps = 100});
  EXPECT_LT(found.rates.size(), 90u);
  EXPECT_LT(found.rates.back(), 1e5);
  EXPECT_LT(found.suggestion, 10);
}

TEST(RateFinder, LeavesTheModelAsItWas) {
  nn::Sequential model = network();
  model.build({2}, {.seed = 9});
  std::vector<std::vector<double>> before;
  for (const nn::NamedVariable& named : model.named_variables())
    before.push_back(named.variable.value().to_vector<double>());
  find_rate(model, points(128), {.batch = 32, .from = 1e-3, .to = 10, .steps = 20});
  const std::vector<nn::NamedVariable> after = model.named_variables();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i].variable.value().to_vector<double>(), before[i]) << after[i].path;
}

TEST(RateFinder, RefusesWhatMakesNoSense) {
  nn::Sequential model = network();
  const data::Dataset data = points(16);
  EXPECT_THROW(find_rate(model, data, {.from = 0}), Error);
  EXPECT_THROW(find_rate(model, data, {.from = 1, .to = 0.1}), Error);
  EXPECT_THROW(find_rate(model, data, {.to = INFINITY}), Error);
  EXPECT_THROW(find_rate(model, data, {.batch = 0}), Error);
  EXPECT_THROW(find_rate(model, data, {.steps = 2}), Error);
  EXPECT_THROW(find_rate(model, {}), Error);
  // Not a number from the start: the model is put back, and the message says so.
  const data::Dataset broken = data::from_tensors(full({16, 2}, NAN), zeros({16}, i32));
  EXPECT_THROW(find_rate(model, broken), Error);
}

}  // namespace
}  // namespace varve::train
