// State of which each rank keeps its part: the mathematics is that of one rank.
#include <cmath>

#include "distributed/fit_ranks.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;

class Sharded : public FitRanks {};

// 10 outputs, 17 hidden: sizes that no number of ranks divides.
nn::Sequential odd_network() {
  return nn::sequential(nn::flatten(), nn::dense(17, {.activation = nn::tanh}), nn::dense(10));
}

train::FitOptions sharded_options(dist::Parallel parallel, int epochs = 2) {
  return {.optimizer = optim::adam(1e-2, {.weight_decay = 1e-3}),
          .epochs = epochs,
          .batch = 32,
          .seed = 3,
          .verbosity = train::Verbosity::quiet,
          .parallel = parallel};
}

std::string trained(const train::FitOptions& options, std::int64_t samples = 70) {
  auto data = data::digits({.train = samples, .test = 37});
  auto model = odd_network();
  train::FitOptions all = options;
  all.validation = data.test;
  std::string text = losses_text(train::fit(model, data.train, all));
  const auto score = train::evaluate(model, data.test);  // the model is whole again
  return text + std::to_string(score.loss);
}

TEST_P(Sharded, OptimizerStateGivesOneRanksLosses) {
  expect_as_one([] {
    auto options = sharded_options({.shard_optimizer = true});
    options.optimizer.clip_norm(0.5);
    return trained(options);
  });
}

TEST_P(Sharded, ParametersGiveOneRanksLosses) {
  expect_as_one([] {
    auto options = sharded_options({.shard_parameters = true});
    options.optimizer.clip_norm(0.5);
    options.average = 0.9;
    return trained(options);
  });
}

// One sample to validate: the other ranks have none, and still give their parts of the weights.
TEST_P(Sharded, RanksWithoutSamplesGiveTheirParts) {
  expect_as_one([] {
    auto data = data::digits({.train = 33, .test = 1});
    auto model = odd_network();
    auto options = sharded_options({.shard_parameters = true});
    options.validation = data.test;
    return losses_text(train::fit(model, data.train, options));
  });
}

TEST_P(Sharded, AccumulatedGradients) {
  expect_as_one([] {
    auto options = sharded_options({.shard_optimizer = true});
    options.batch = 16;
    options.accumulate = 3;
    return trained(options, 96);
  });
}

// A checkpoint has whole values, whoever wrote it: begun by one rank, continued by several, and the other way round.
TEST_P(Sharded, AnyNumberOfRanksGoesOnWithACheckpoint) {
  static const TemporaryFolder folder;
  const bool first = !std::getenv("VARVE_RANK");
  for (const dist::Parallel& parallel : {dist::Parallel{.shard_optimizer = true}, {.shard_parameters = true}}) {
    const std::string variable = parallel.shard_optimizer ? "ONE_RUN" : "ANOTHER_RUN";
    if (first) {
      auto begin = sharded_options(parallel, 1);
      begin.run = folder / variable;
      begin.overwrite = true;
      trained(begin);
      setenv(variable.c_str(), begin.run.c_str(), 1);
      setenv((variable + "_LOSSES").c_str(), trained(sharded_options(parallel, 4)).c_str(), 1);
      continue;
    }
    for (const int epochs : {2, 4}) {  // the second goes on with what ranks have written
      auto go_on = sharded_options(parallel, epochs);
      go_on.run = std::getenv(variable.c_str());
      go_on.resume = true;
      const std::string losses = trained(go_on);
      if (epochs == 4) expect_near(losses, std::getenv((variable + "_LOSSES").c_str()), 2e-4);
    }
  }
  if (first) started();
}

// Uncompiled and compiled loops of one's own.
TEST_P(Sharded, ALoopOfOnesOwn) {
  for (const bool compiled : {false, true})
    for (const dist::Parallel& parallel : {dist::Parallel{.shard_optimizer = true}, {.shard_parameters = true}}) {
      const auto training = [&] {
        auto model = odd_network();
        model.build({28, 28, 1}, {.seed = 1});
        auto sgd = optim::sgd(0.05, {.momentum = 0.9}).over(model.parameters(), parallel);
        const auto record = [&](Tensor x, Tensor labels) {
          auto [loss, grads] =
              value_and_grad([&] { return cross_entropy(model(x, Mode::train), labels); }, model.parameters());
          const Tensor norm = sgd.apply_with_norm(grads);
          return dist::all_mean(loss) + norm;
        };
        auto step = compile(record);
        std::string text;
        for (auto& [x, labels] : data::batches(data::digits({.train = 48, .test = 1}).train, {.batch = 12, .seed = 7}))
          text += std::to_string((compiled ? step(x, labels) : record(x, labels)).item<float>()) + " ";
        dist::unshard(model.parameters());
        return text;
      };
      const std::string name = "LOOP" + std::to_string(compiled) + std::to_string(parallel.shard_optimizer);
      if (!std::getenv("VARVE_RANK"))
        setenv(name.c_str(), training().c_str(), 1);
      else
        expect_near(training(), std::getenv(name.c_str()), 2e-4);
    }
  if (!std::getenv("VARVE_RANK")) started();
}

TEST_P(Sharded, AVariableIsReadAsAWholeAndKeptInParts) {
  if (started()) return;
  Variable v("v", tensor({1.f, 2.f, 3.f, 4.f, 5.f}).reshape({5, 1}));
  dist::shard({v});
  EXPECT_EQ(dist::is_sharded(v), dist::size() > 1);
  EXPECT_EQ(v.shape(), Shape({5, 1}));
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5}));
  if (dist::size() > 1) {
    EXPECT_EQ(dist::part_of(v).shape(), Shape({(5 + dist::size() - 1) / dist::size()}));
  }
  v.assign(v.value() * 2);
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{2, 4, 6, 8, 10}));
  dist::unshard({v});
  EXPECT_FALSE(dist::is_sharded(v));
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{2, 4, 6, 8, 10}));
}

TEST_P(Sharded, AStepNeedsLessMemory) {
  if (started()) return;
  const auto kept_bytes = [](dist::Parallel parallel) {
    auto model = nn::sequential(nn::dense(512), nn::dense(512));
    model.build({512}, {.seed = 1});
    auto adam = optim::adam().over(model.parameters(), parallel);
    auto step = compile([&](Tensor x) {
      auto [loss, grads] = value_and_grad([&] { return sum(model(x, Mode::train)); }, model.parameters());
      adam.apply(grads);
      return loss;
    });
    std::int64_t kept = 0;
    for (const auto& all : {model.parameters(), adam.state()})
      for (const Variable& variable : all) kept += dist::part_of(variable).type().bytes();
    return std::pair(kept, step.peak_bytes(ones({4, 512})));
  };
  const auto [whole, peak] = kept_bytes({});
  const auto [optimizer, optimizer_peak] = kept_bytes({.shard_optimizer = true});
  const auto [parameters, parameters_peak] = kept_bytes({.shard_parameters = true});
  if (dist::size() == 1) {
    EXPECT_EQ(parameters, whole);
    return;
  }
  EXPECT_LT(optimizer, whole / 3 + 2 * whole / 3 / dist::size() + 4096);  // parameters whole, two moments in parts
  EXPECT_LT(parameters, whole / dist::size() + 4096);
  EXPECT_LT(optimizer_peak, peak);
  EXPECT_LT(parameters_peak, optimizer_peak);
}

TEST_P(Sharded, ARuleThatNeedsWholeParametersRefuses) {
  if (started()) return;
  const auto over = [] { optim::lamb().over({Variable("w", ones({8}))}, {.shard_optimizer = true}); };
  if (dist::size() == 1)
    EXPECT_NO_THROW(over());
  else
    EXPECT_THROW(over(), Error);
}

TEST_P(Sharded, NothingTravelsAsNothing) {
  if (started()) return;
  EXPECT_EQ(dist::all_gather(zeros({0, 3})).shape(), Shape({0, 3}));
  EXPECT_EQ(dist::all_gather(zeros({0, 3})).to_vector<float>().size(), 0u);
  EXPECT_EQ(dist::all_sum(zeros({0})).to_vector<float>().size(), 0u);
  EXPECT_EQ(dist::sum_scatter(zeros({0})).to_vector<float>().size(), 0u);
  EXPECT_EQ(dist::broadcast(zeros({0})).to_vector<float>().size(), 0u);
  EXPECT_EQ(dist::gather_text("").size(), static_cast<std::size_t>(dist::size()));
}

INSTANTIATE_TEST_SUITE_P(Of, Sharded, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace varve::test
