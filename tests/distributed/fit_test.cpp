// Training by several ranks is training by one: the same losses to rounding, the same bits each time.
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <thread>

#include "distributed/fit_ranks.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;

nn::Sequential network() {
  return nn::sequential(nn::conv2d(4, {.kernel = 3}), nn::batch_norm(), nn::activation(nn::relu), nn::flatten(),
                        nn::dense(16, {.activation = nn::tanh}), nn::dense(10));
}

// Without batch norm, whose statistics are those of a rank's share.
nn::Sequential plain_network() {
  return nn::sequential(nn::flatten(), nn::dense(16, {.activation = nn::tanh}), nn::dense(10));
}

train::FitOptions options_for(int epochs) {
  return {.loss = train::cross_entropy,
          .optimizer = optim::adam(1e-2),
          .epochs = epochs,
          .batch = 32,
          .seed = 3,
          .verbosity = train::Verbosity::quiet};
}

class FitAmongRanks : public FitRanks {};

data::Splits digits(std::int64_t samples) { return data::digits({.train = samples, .test = 37}); }

// 70 samples in batches of 32: the last has 6, which 4 ranks cannot share evenly; 37 to validate.
TEST_P(FitAmongRanks, LossesAndMetricsAreThoseOfOneRank) {
  expect_as_one([] {
    auto data = digits(70);
    auto model = plain_network();
    auto options = options_for(3);
    options.validation = data.test;
    options.optimizer.clip_norm(0.5);
    return losses_text(train::fit(model, data.train, options));
  });
}

// Of 4 ranks one has no sample of the last batch: what it computes instead is in no statistic.
TEST_P(FitAmongRanks, SynchronisedBatchNormIsThatOfOneRank) {
  expect_as_one([] {
    auto data = digits(37);
    auto model = network();
    auto options = options_for(3);
    options.batch = 34;
    options.validation = data.test;
    options.parallel.sync_batch_norm = true;
    // A bias before a batch norm has a gradient of rounding errors alone, which Adam would make steps of.
    options.optimizer = optim::sgd(0.05, {.momentum = 0.9});
    return losses_text(train::fit(model, data.train, options));
  });
}

// The last batch has one sample: all ranks but one have none.
TEST_P(FitAmongRanks, RanksWithoutSamplesTakePart) {
  expect_as_one([] {
    auto model = plain_network();
    return losses_text(train::fit(model, digits(33).train, options_for(2)));
  });
}

// Each rank has some samples, of 4 the last has none; no rank sees another's. One batch is all of them, so that the
// order in which they come does not matter.
data::Dataset own_part_of(const data::Dataset& all) {
  const std::int64_t n = all.size();
  const auto edge = [&](int r) { return r == dist::size() ? n : std::min<std::int64_t>(n, r * r * 9 + r * 5); };
  std::vector<std::int64_t> own;
  for (std::int64_t i = edge(dist::rank()); i < edge(dist::rank() + 1); ++i) own.push_back(i);
  return data::part(all.subset(own));
}

TEST_P(FitAmongRanks, SamplesMayLieApart) {
  expect_as_one([] {
    auto data = digits(70);
    auto model = plain_network();
    auto options = options_for(3);
    options.batch = 70;
    options.validation = own_part_of(data.test);
    const data::Dataset part = own_part_of(data.train);
    EXPECT_EQ(part.total(), 70);
    return losses_text(train::fit(model, part, options));
  });
}

TEST_P(FitAmongRanks, AnEpochReadsEachSampleOfEachPartOnce) {
  if (started()) return;
  const data::Dataset part = own_part_of(digits(70).train);
  std::vector<float> expected, got;
  for (std::int64_t i = 0; i < part.size(); ++i) expected.push_back(sum(part.at(i).first).item<float>());
  std::int64_t batches = 0;
  for (auto& [x, labels] : data::batches(part, {.batch = 16, .seed = 5})) {
    ++batches;
    for (std::int64_t i = 0; i < x.dim(0); ++i) got.push_back(sum(x.slice({{i, i + 1}})).item<float>());
  }
  EXPECT_EQ(batches, 5);
  std::sort(expected.begin(), expected.end());
  std::sort(got.begin(), got.end());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-3);
  const auto [held, rest] = part.split(0.1);
  EXPECT_EQ(held.total() + rest.total(), 70);
  EXPECT_EQ(held.parts().size(), static_cast<std::size_t>(dist::size()));
  EXPECT_EQ(held.parts()[static_cast<std::size_t>(dist::rank())], held.size());
  EXPECT_THROW(part.take(1), Error);
}

TEST_P(FitAmongRanks, AccumulatedGradients) {
  expect_as_one([] {
    auto model = plain_network();
    auto options = options_for(2);
    options.batch = 16;
    options.accumulate = 3;
    options.average = 0.9;
    return losses_text(train::fit(model, digits(96).train, options));
  });
}

TEST_P(FitAmongRanks, AllRanksEndWithTheSameWeightsAndStatistics) {
  if (started()) return;
  auto model = network();
  train::fit(model, digits(100).train, options_for(2));
  std::vector<Variable> variables;
  for (const nn::NamedVariable& named : model.named_variables()) variables.push_back(named.variable);
  EXPECT_NO_THROW(dist::check_ranks(variables));
  if (dist::size() > 1) {
    if (dist::rank() == dist::size() - 1) variables[0].assign(variables[0].value() + 1e-3);
    EXPECT_THROW(dist::check_ranks(variables), Error);
  }
}

TEST_P(FitAmongRanks, ALoopOfOnesOwnNeedsNoChange) {
  expect_as_one([] {
    auto data = digits(96);
    auto model = plain_network();
    model.build({28, 28, 1}, {.seed = 1});
    auto adam = optim::adam(1e-2).over(model.parameters());
    auto step = compile([&](Tensor x, Tensor labels) {
      auto [loss, grads] =
          value_and_grad([&] { return cross_entropy(model(x, Mode::train), labels); }, model.parameters());
      adam.apply(grads);
      return dist::all_mean(loss);
    });
    std::string text;
    for (auto& [x, labels] : data::batches(data.train, {.batch = 32, .seed = 7}))
      text += std::to_string(step(x, labels).item<float>()) + " ";
    return text;
  });
}

TEST_P(FitAmongRanks, RunsRepeatBitForBitAndGoOnAfterAStop) {
  if (started()) return;
  const auto weights = [](const std::string& folder, int first, int epochs) {
    auto model = network();
    auto options = options_for(first);
    options.run = folder;
    auto data = digits(100).train;
    if (first < epochs) {
      train::fit(model, data, options);
      model = network();
      options.epochs = epochs;
      options.resume = true;
    }
    train::fit(model, data, options);
    std::vector<float> all;
    for (const nn::NamedVariable& named : model.named_variables()) {
      const std::vector<float> values = named.variable.value().to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const TemporaryFolder folder;
  const std::vector<float> whole = weights(folder / "a", 3, 3), stopped = weights(folder / "b", 1, 3);
  EXPECT_EQ(whole, stopped);
}

TEST_P(FitAmongRanks, OneRanksWishIsAllRanksWish) {
  if (started()) return;
  struct Stop : train::Callback {
    void step_end(train::Session& session) override {
      if (session.step() == 3 && dist::rank() == dist::size() - 1) session.stop("enough");
    }
  };
  auto model = plain_network();
  auto options = options_for(50);
  options.callbacks = {std::make_shared<Stop>()};
  const train::History history = train::fit(model, digits(320).train, options);
  EXPECT_EQ(history.epochs.size(), 1u);
  EXPECT_EQ(history.stopped, dist::rank() == dist::size() - 1 ? "enough" : "another rank asked for it");
}

INSTANTIATE_TEST_SUITE_P(Of, FitAmongRanks, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace varve::test
