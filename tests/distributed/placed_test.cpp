// Values, modules and pipelines that live on one rank each: the mathematics is that of one rank.
#include <cmath>

#include "distributed/fit_ranks.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;

// ---- messages with a gradient

class Transfers : public Ranks {};

Tensor of_rank(int r) { return tensor({1.f, 2.f, 3.f}) * (r + 1); }

TEST_P(Transfers, AValueIsHadWhereItIsSentAndItsGradientTravelsBack) {
  if (started()) return;
  const int n = dist::size(), r = dist::rank();
  for (const char* device : {"cpu", "reference"})
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to) {
        set_device(device);
        const auto moved = [&](const Tensor& x) { return dist::transfer(x, from, to); };
        const Tensor there = of_rank(from), zero = zeros({3});
        EXPECT_EQ(moved(of_rank(r)).to_vector<float>(), (r == to ? there : zero).to_vector<float>());
        // The loss is the sum of the ranks' losses.
        const Tensor slope = grad([&](const Tensor& x) { return sum(moved(x) * (r + 2)); })(of_rank(r));
        EXPECT_EQ(slope.to_vector<float>(), (r == from ? full({3}, to + 2.0) : zero).to_vector<float>());
      }
  set_device("cpu");
}

TEST_P(Transfers, InCompiledProgramsStagesPassValuesOn) {
  if (started()) return;
  const int n = dist::size();
  auto program = compile([&](Tensor x) {
    return value_and_grad([&](const Tensor& t) {
      Tensor y = t;
      for (int r = 1; r < n; ++r) y = dist::transfer(tanh(y), r - 1, r) * 2;
      return sum(square(y));
    })(x);
  });
  for (int step = 0; step < 5; ++step) {
    const Tensor x = full({1000}, 0.1 * step);
    const auto [loss, slope] = program(x);
    Tensor expected_loss, expected_slope;
    std::tie(expected_loss, expected_slope) = value_and_grad([&](const Tensor& t) {
      Tensor y = t;
      for (int r = 1; r < n; ++r) y = tanh(y) * 2;
      return sum(square(y));
    })(x);
    if (dist::rank() == n - 1) {
      EXPECT_NEAR(loss.item<float>(), expected_loss.item<float>(), 1e-3 + 1e-5 * expected_loss.item<float>());
    }
    if (dist::rank() == 0) {
      EXPECT_NEAR(slope.to_vector<float>()[7], expected_slope.to_vector<float>()[7], 1e-4);
    }
  }
}

TEST_P(Transfers, WhatIsSentInAGradientIsRefusedByName) {
  if (GetParam() == 1 || started()) return;
  dist::join();
  const auto loss = [](const Tensor& x) {
    if (dist::rank() == 0) {
      dist::send(x, 1);
      return sum(x);
    }
    return sum(dist::recv(x.type(), 0) * x);
  };
  if (dist::rank() == 0) {
    try {
      grad(loss)(ones({2}));
      FAIL() << "a gradient was lost";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("transfer"), std::string::npos) << error.what();
    }
    dist::send(stop_gradient(ones({2})), 1);
  } else if (dist::rank() == 1) {
    EXPECT_EQ(grad(loss)(ones({2})).to_vector<float>()[0], 1);
  }
  dist::rank_barrier();
}

TEST_P(Transfers, LoopsRefuseThemByName) {
  if (GetParam() == 1 || started()) return;
  try {
    scan(
        [](const std::vector<Tensor>& carry, const std::vector<Tensor>&) {
          return ScanStep{{dist::all_sum(carry[0])}, {}};
        },
        {ones({2})}, {}, {.length = 3});
    FAIL() << "a loop exchanged values";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("scan: a function of it calls all_sum"), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Transfers, ::testing::Values(1, 2, 3, 4));

// ---- placed modules

class Placed : public FitRanks {};

int last() { return dist::size() - 1; }

nn::Sequential stages() {
  auto model = nn::sequential(nn::flatten(), nn::dense(24, {.activation = nn::tanh}),
                              nn::dense(16, {.activation = nn::relu}), nn::dense(10));
  model[1].place({.rank = 0});
  model[2].place({.rank = last() / 2});
  model[3].place({.rank = last()});
  return model;
}

TEST_P(Placed, AVariableIsKeptByOneRankAndReadByAll) {
  if (started()) return;
  Variable v("v", tensor({1.f, 2.f, 3.f}));
  dist::place({v}, last());
  EXPECT_EQ(dist::placed_on(v), dist::size() > 1 ? last() : -1);
  EXPECT_EQ(dist::kept_of(v).shape().numel(), dist::rank() == last() ? 3 : 0);
  EXPECT_EQ(v.shape(), Shape({3}));
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{1, 2, 3}));
  v.assign(v.value() * 2);
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{2, 4, 6}));
  dist::unshard({v});
  EXPECT_EQ(dist::placed_on(v), -1);
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{2, 4, 6}));
  if (dist::size() > 1) {
    EXPECT_THROW(dist::place({v}, dist::size()), Error);
  }
}

TEST_P(Placed, ForwardAndGradientsAreThoseOfOneRank) {
  expect_as_one([] {
    auto model = stages();
    model.build({28, 28, 1}, {.seed = 1});
    const Tensor x = sin(arange(4 * 784).to(f32)).reshape({4, 28, 28, 1}).eval();
    std::string text;
    for (const bool compiled : {false, true}) {
      const auto record = [&](Tensor in) {
        auto [loss, grads] = value_and_grad([&] { return sum(square(model(in, Mode::train))); }, model.parameters());
        grads.push_back(loss);
        for (Tensor& g : grads) g = sum(square(g));
        return stack(grads);
      };
      auto step = compile(record);
      for (const float value : (compiled ? step(x) : record(x)).to_vector<float>()) text += std::to_string(value) + " ";
    }
    return text;
  });
}

train::FitOptions placed_options(std::int64_t micro_batches, int epochs = 2) {
  return {.optimizer = optim::adam(1e-2, {.weight_decay = 1e-3}),
          .epochs = epochs,
          .batch = 32,
          .seed = 3,
          .verbosity = train::Verbosity::quiet,
          .parallel = {.micro_batches = micro_batches}};
}

TEST_P(Placed, TrainingIsThatOfOneRank) {
  expect_as_one([] {
    std::string text;
    for (const std::int64_t micro_batches : {1, 2, 4}) {
      auto data = data::digits({.train = 70, .test = 37});
      auto model = stages();
      auto options = placed_options(micro_batches);
      options.validation = data.test;
      options.optimizer.clip_norm(0.5);
      options.average = 0.9;
      text += losses_text(train::fit(model, data.train, options));
      text += std::to_string(train::evaluate(model, data.test).loss) + " ";  // whole again
    }
    return text;
  });
}

// `fit` places the layers.
train::FitOptions pipelined(std::int64_t micro_batches, int epochs = 2) {
  auto options = placed_options(micro_batches, epochs);
  options.parallel.pipeline = true;
  return options;
}

TEST_P(Placed, ALeNetInAPipelineIsThatOfOneRank) {
  expect_as_one([] {
    std::string text;
    for (const std::int64_t micro_batches : {1, 2, 4}) {
      auto model = zoo::make("lenet5");
      text += losses_text(train::fit(*model, data::digits({.train = 70, .test = 1}).train, pipelined(micro_batches)));
    }
    return text;
  });
}

// The last batch of 6 is smaller than the 8 parts; dropout drops what one rank would.
TEST_P(Placed, AccumulationDropoutAndSmallBatches) {
  expect_as_one([] {
    auto model = nn::sequential(nn::flatten(), nn::dense(16, {.activation = nn::relu}), nn::dropout(0.3), nn::dense(16),
                                nn::batch_norm(), nn::dense(10));
    auto options = pipelined(8);
    options.accumulate = 2;
    // A bias before a batch norm has a gradient of rounding errors alone, which Adam would make steps of.
    options.optimizer = optim::sgd(0.05, {.momentum = 0.9});
    return losses_text(train::fit(model, data::digits({.train = 70, .test = 1}).train, options));
  });
}

// Begun by one rank, continued by several with what they have written, and the other way round.
TEST_P(Placed, AnyNumberOfRanksGoesOnWithACheckpoint) {
  static const TemporaryFolder folder;
  const auto trained = [](int epochs, const std::string& run, bool resume) {
    auto model = stages();
    auto options = pipelined(2, epochs);
    options.run = run;
    options.resume = resume;
    auto data = data::digits({.train = 70, .test = 37});
    options.validation = data.test;
    return losses_text(train::fit(model, data.train, options));
  };
  if (std::getenv("VARVE_RANK")) {
    trained(2, std::getenv("RUN"), true);
    return;
  }
  const std::string run = folder / std::to_string(GetParam());
  setenv("RUN", run.c_str(), 1);
  trained(1, run, false);
  started();
  expect_near(trained(4, run, true), trained(4, "", false), 2e-4);
}

TEST_P(Placed, EachRankNeedsLessMemory) {
  if (started()) return;
  const auto kept_and_peak = [](bool placed) {
    auto model = nn::sequential(nn::dense(512), nn::dense(512), nn::dense(512), nn::dense(512));
    model.build({512}, {.seed = 1});
    if (placed) nn::place_evenly(model);
    auto adam = optim::adam().over(model.parameters());
    auto step = compile([&](Tensor x) {
      auto [loss, grads] = value_and_grad([&] { return sum(model(x, Mode::train)); }, model.parameters());
      adam.apply(grads);
      return loss;
    });
    std::int64_t kept = 0;
    for (const auto& all : {model.parameters(), adam.state()})
      for (const Variable& variable : all) kept += static_cast<std::int64_t>(dist::kept_of(variable).type().bytes());
    return std::pair(kept, step.peak_bytes(ones({4, 512})));
  };
  const auto [whole, whole_peak] = kept_and_peak(false);
  const auto [own, own_peak] = kept_and_peak(true);
  const std::int64_t largest = (4 + dist::size() - 1) / dist::size();  // layers
  EXPECT_LE(own, whole * largest / 4 + 4096);
  if (dist::size() > 1) {
    EXPECT_LT(own_peak, whole_peak * (largest + 1) / 4);
  }
}

TEST_P(Placed, WhatMakesNoSenseIsRefused) {
  if (started()) return;
  auto model = stages();
  auto data = data::digits({.train = 32, .test = 1}).train;
  const auto fits = [&](dist::Parallel parallel) {
    auto options = placed_options(1, 1);
    options.parallel = parallel;
    auto fresh = stages();
    train::fit(fresh, data, options);
  };
  EXPECT_THROW(fits({.micro_batches = 0}), Error);
  EXPECT_THROW(fits({.shards = 2, .pipeline = true}), Error);
  if (dist::size() == 1) return;
  EXPECT_THROW(fits({.shard_optimizer = true}), Error);
  EXPECT_THROW(fits({.sync_batch_norm = true}), Error);
  auto small = nn::sequential(nn::dense(10));
  EXPECT_THROW(nn::place_evenly(small), Error);
}

TEST_P(Placed, NetworkFilesSayWhere) {
  if (started()) return;
  auto network = nn::network_from_toml(
      "input = [4]\n[[layer]]\ndense = 3\n[[layer]]\ndense = 2\nrank = " + std::to_string(last()) + "\n", "two");
  network.network.build(network.input);
  EXPECT_EQ(dist::placed_on(network.network.variable("dense_1.weight")), -1);
  EXPECT_EQ(dist::placed_on(network.network.variable("dense_2.weight")), dist::size() > 1 ? last() : -1);
  const Tensor y = network.network(ones({2, 4}));
  EXPECT_EQ(y.to_vector<float>().size(), 4u);
}

INSTANTIATE_TEST_SUITE_P(Of, Placed, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace varve::test
