// Ranks that step by themselves: averages of their weights now and then, and a parameter server.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "distributed/fit_ranks.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;

class Alone : public FitRanks {};

nn::Sequential lone_network() {
  return nn::sequential(nn::flatten(), nn::dense(32, {.activation = nn::tanh}), nn::batch_norm(), nn::dense(10));
}

nn::Sequential lone_plain_network() {
  return nn::sequential(nn::flatten(), nn::dense(16, {.activation = nn::tanh}), nn::dense(10));
}

train::FitOptions lone_options(const dist::Parallel& parallel, int epochs) {
  return {.optimizer = optim::sgd(0.05),
          .epochs = epochs,
          .batch = 24,
          .seed = 3,
          .verbosity = train::Verbosity::quiet,
          .parallel = parallel};
}

// 70 samples in batches of 24: the last has 22, which three do not share evenly.
std::string lone_losses(const train::FitOptions& options) {
  auto data = data::digits({.train = 70, .test = 37});
  auto model = lone_plain_network();
  train::FitOptions all = options;
  all.validation = data.test;
  std::string text = losses_text(train::fit(model, data.train, all));
  EXPECT_NO_THROW(dist::check_ranks(model.parameters()));
  return text;
}

double lone_accuracy(const train::FitOptions& options) {
  auto data = data::digits({.train = 400, .test = 100});
  auto model = lone_network();
  train::fit(model, data.train, options);
  return train::evaluate(model, data.test).accuracy;
}

TEST_P(Alone, AnAverageAtEachStepOfSgdIsOneRanksStep) {
  expect_as_one([] { return lone_losses(lone_options({.average_every = 1}, 3)); });
}

TEST_P(Alone, AveragesNowAndThenTrainToo) {
  if (started() || dist::size() == 1) return;
  auto options = lone_options({.average_every = 4}, 5);
  options.optimizer = optim::adam(3e-3);
  EXPECT_GT(lone_accuracy(options), 0.55);
  options.parallel.block_momentum = 0.4;
  EXPECT_GT(lone_accuracy(options), 0.55);
}

TEST_P(Alone, RunsGoOnAfterAStop) {
  if (started() || dist::size() == 1) return;
  const TemporaryFolder folder;
  for (const dist::Parallel& parallel :
       {dist::Parallel{.average_every = 2, .block_momentum = 0.3}, dist::Parallel{.staleness = 1}}) {
    auto options = lone_options(parallel, 1);
    options.run = folder / (parallel.staleness >= 0 ? "server" : "averages");
    lone_losses(options);
    options.epochs = 3;
    options.resume = true;
    auto data = data::digits({.train = 70, .test = 37});
    auto model = lone_plain_network();
    const train::History history = train::fit(model, data.train, options);
    EXPECT_EQ(history.epochs.size(), 3u);
    EXPECT_LT(history.epochs.back().value("loss"), history.epochs.front().value("loss"));
  }
}

// With a bound of 0 nobody goes on before all have come: one rank's training, whatever the rule.
TEST_P(Alone, AServerWithABoundOfZeroIsOneRanksTraining) {
  expect_as_one([] {
    auto options = lone_options({.staleness = 0}, 3);
    options.optimizer = optim::adam(1e-2);
    options.optimizer.clip_norm(0.5);
    return lone_losses(options);
  });
}

struct Late : train::Callback {
  void step_end(train::Session&) override {
    if (dist::size() > 2 && dist::rank() == dist::size() - 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
};

// The others run ahead of a slow one up to the bound, and there they wait.
TEST_P(Alone, ASlowWorkerIsWaitedForAtTheBound) {
  if (started() || dist::size() == 1) return;
  auto data = data::digits({.train = 400, .test = 100});
  auto model = lone_network();
  auto options = lone_options({.staleness = 2}, 5);
  options.optimizer = optim::adam(3e-3);
  options.callbacks = {std::make_shared<Late>()};
  const train::History history = train::fit(model, data.train, options);
  EXPECT_GT(train::evaluate(model, data.test).accuracy, 0.55);
  if (dist::rank() == 0) {
    EXPECT_EQ(history.most_ahead, dist::size() > 2 ? 2 : 0);
  }
}

TEST_P(Alone, OneRanksWishIsAllRanksWish) {
  if (started() || dist::size() == 1) return;
  struct Stop : train::Callback {
    void step_end(train::Session& session) override {
      if (session.step() == 3 && dist::rank() == dist::size() - 1) session.stop("enough");
    }
  };
  for (const dist::Parallel& parallel : {dist::Parallel{.average_every = 2}, dist::Parallel{.staleness = 1}}) {
    auto model = lone_plain_network();
    auto options = lone_options(parallel, 50);
    options.callbacks = {std::make_shared<Stop>()};
    const train::History history = train::fit(model, data::digits({.train = 240, .test = 1}).train, options);
    EXPECT_EQ(history.epochs.size(), 1u);
    EXPECT_FALSE(history.stopped.empty());
  }
}

TEST_P(Alone, ADeadWorkerEndsTheJob) {
  if (GetParam() == 1) return;
  if (!std::getenv("VARVE_RANK")) {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dist::LaunchOptions options;
    options.ranks = GetParam();
    options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_brief=1",
                       std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name()};
    EXPECT_EQ(dist::launch(options), 9);
    return;
  }
  struct Die : train::Callback {
    void step_end(train::Session& session) override {
      if (session.step() == 3 && dist::rank() == dist::size() - 1) std::_Exit(9);
    }
  };
  auto model = lone_plain_network();
  auto options = lone_options({.staleness = 1}, 50);
  options.callbacks = {std::make_shared<Die>()};
  EXPECT_THROW(train::fit(model, data::digits({.train = 240, .test = 1}).train, options), Error);
}

TEST(AloneOptions, WhatMakesNoSenseIsRefused) {
  auto model = lone_plain_network();
  const auto train = data::digits({.train = 24, .test = 1}).train;
  const auto fit_with = [&](const dist::Parallel& parallel, std::int64_t accumulate = 1) {
    auto options = lone_options(parallel, 1);
    options.accumulate = accumulate;
    train::fit(model, train, options);
  };
  EXPECT_THROW(fit_with({.sync_batch_norm = true, .average_every = 2}), Error);
  EXPECT_THROW(fit_with({.check_every = 5, .staleness = 1}), Error);
  EXPECT_THROW(fit_with({.average_every = 2, .staleness = 1}), Error);
  EXPECT_THROW(fit_with({.block_momentum = 0.5}), Error);
  EXPECT_THROW(fit_with({.staleness = 1}, 2), Error);
}

INSTANTIATE_TEST_SUITE_P(Of, Alone, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace varve::test
