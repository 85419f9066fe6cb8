// Shards of a batch, computed apart and added in one fixed tree: the bits do not say how many ranks there were.
#include <fstream>
#include <iterator>

#include "distributed/fit_ranks.h"
#include "temporary_folder.h"
#include "train/shard_tree.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What a run leaves, but for its times: the file of the best weights, all that goes on in the last checkpoint, losses
// and metrics to the last bit.
std::string bits_of(const std::string& folder, const train::History& history) {
  std::string bits = bytes_of_file(folder + "/best.safetensors");
  for (const auto& [name, value] : load_safetensors(folder + "/last.safetensors").tensors)
    bits.append(name).append(static_cast<const char*>(value.data()), value.type().bytes());
  for (const train::Epoch& epoch : history.epochs)
    for (const auto& [name, value] : epoch.values) bits.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return bits;
}

class ShardedBatches : public Ranks {
 protected:
  void SetUp() override { set_deterministic(true); }
  void TearDown() override { set_deterministic(false); }

  // `training` gives the bits of a run in a folder: first of one rank here, by all threads, then of the first of
  // several.
  template <class Training>
  void expect_one_ranks_bits(Training training) {
    const TemporaryFolder folder;
    if (!std::getenv("VARVE_RANK")) {
      std::ofstream(folder / "bits", std::ios::binary) << training(folder / "run");
      setenv("ONE_RANKS_BITS", (folder / "bits").c_str(), 1);
    }
    if (started()) return;
    const std::string bits = training(folder / "run");
    if (dist::rank() == 0) {
      ASSERT_GT(bits.size(), 1000u);
      EXPECT_TRUE(bits == bytes_of_file(std::getenv("ONE_RANKS_BITS")));
    }
  }
};

nn::Sequential dense_network() {
  return nn::sequential(nn::flatten(), nn::dense(32), nn::batch_norm(), nn::activation(nn::relu), nn::dropout(0.3),
                        nn::dense(10));
}

nn::Sequential conv_network() {
  return nn::sequential(nn::conv2d(6, {.kernel = 5}), nn::batch_norm(), nn::activation(nn::relu), nn::max_pool2d(2),
                        nn::dropout(0.2), nn::conv2d(8, {.kernel = 3, .activation = nn::tanh}), nn::flatten(),
                        nn::dense(10));
}

train::FitOptions options_for(std::int64_t shards, const std::string& run) {
  return {.optimizer = optim::adam(1e-2),
          .epochs = 2,
          .batch = 32,
          .run = run,
          .seed = 3,
          .verbosity = train::Verbosity::quiet,
          .parallel = {.shards = shards}};
}

// 67 samples in batches of 32: the last has 3, and most shards none. 37 to validate, in shards of 4 and 5.
std::string trained(nn::Sequential model, const train::FitOptions& options) {
  const auto data = data::digits({.train = 67, .test = 37});
  train::FitOptions all = options;
  if (!all.validation.defined()) all.validation = data.test;
  const train::History history = train::fit(model, data.train, all);
  const train::Score score =
      train::evaluate(model, data.test, {.loss = options.loss, .batch = 20, .shards = options.parallel.shards});
  std::vector<Variable> variables;
  for (const nn::NamedVariable& named : model.named_variables()) variables.push_back(named.variable);
  dist::check_ranks(variables);
  if (dist::rank() > 0) return "";
  return bits_of(options.run, history).append(reinterpret_cast<const char*>(&score.loss), sizeof(score.loss));
}

TEST_P(ShardedBatches, ADenseNetworkInFourAndEight) {
  expect_one_ranks_bits([](const std::string& run) {
    return trained(dense_network(), options_for(4, run + "4")) + trained(dense_network(), options_for(8, run + "8"));
  });
}

TEST_P(ShardedBatches, AConvolutionalNetworkInFourAndEight) {
  expect_one_ranks_bits([](const std::string& run) {
    return trained(conv_network(), options_for(4, run + "4")) + trained(conv_network(), options_for(8, run + "8"));
  });
}

TEST_P(ShardedBatches, WithAllThatFitCanDo) {
  expect_one_ranks_bits([](const std::string& run) {
    auto options = options_for(4, run);
    options.optimizer = optim::sgd(0.1, {.momentum = 0.9}).clip_norm(0.5);
    options.batch = 18;  // shards of 4 and 5
    options.accumulate = 3;
    options.average = 0.9;
    options.mixup = 0.4;
    options.metrics = {train::accuracy(), train::perplexity()};
    options.parallel.check_every = 2;
    return trained(dense_network(), options);
  });
}

TEST_P(ShardedBatches, AnAutoencoder) {
  expect_one_ranks_bits([](const std::string& run) {
    auto options = options_for(4, run);
    options.loss = train::reconstruction;
    options.check_layers = true;
    return trained(nn::sequential(nn::flatten(), nn::dense(12, {.activation = nn::tanh}), nn::dense(784),
                                  nn::reshape({28, 28, 1})),
                   options);
  });
}

// Kernels split their sums by the number of threads then: the same number gives the same bits.
TEST_P(ShardedBatches, WithoutDeterministicByAsManyThreads) {
  set_deterministic(false);
  set_threads(1);
  expect_one_ranks_bits([](const std::string& run) { return trained(conv_network(), options_for(4, run)); });
}

// A run that ends in the middle of its second epoch, and has saved.
void train_half(const train::FitOptions& options) {
  auto half = options;
  half.callbacks = {train::each_step([](train::Session& session) {
    if (session.step() == 4) throw Stopped("enough");
  })};
  EXPECT_THROW(trained(conv_network(), half), Stopped);
}

// Begun by one rank and continued by several, and the other way round.
TEST_P(ShardedBatches, AnyNumberOfRanksGoesOnBitForBit) {
  const TemporaryFolder folder;
  const bool first = !std::getenv("VARVE_RANK");
  if (first) {
    train_half(options_for(4, folder / "by_one"));
    setenv("FOLDER", folder.path().c_str(), 1);
    std::ofstream(folder / "bits", std::ios::binary) << trained(conv_network(), options_for(4, folder / "whole"));
  }
  const std::string given = std::getenv("FOLDER");
  const auto continued = [&](const std::string& name) {
    auto options = options_for(4, given + name);
    options.resume = true;
    return trained(conv_network(), options);
  };
  if (!started()) {
    train_half(options_for(4, given + "/by_many"));
    const std::string bits = continued("/by_one");
    EXPECT_TRUE(dist::rank() > 0 || bits == bytes_of_file(given + "/bits"));
  } else {
    EXPECT_TRUE(continued("/by_many") == bytes_of_file(given + "/bits"));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ShardedBatches, ::testing::Values(2, 4));

class SixShards : public ShardedBatches {};

// Shards 0 to 2 and 3 to 5 are no subtrees: 2 and 3 meet on the wire.
TEST_P(SixShards, WhoseTreeIsNotBalanced) {
  expect_one_ranks_bits([](const std::string& run) { return trained(dense_network(), options_for(6, run)); });
}

INSTANTIATE_TEST_SUITE_P(Of, SixShards, ::testing::Values(2, 3));

TEST(ShardTree, SubtreesOfARange) {
  using train::ShardNode;
  EXPECT_EQ(train::roots_of({0, 8}), (std::vector<ShardNode>{{3, 0}}));
  EXPECT_EQ(train::roots_of({0, 6}), (std::vector<ShardNode>{{2, 0}, {1, 2}}));
  EXPECT_EQ(train::roots_of({3, 6}), (std::vector<ShardNode>{{0, 3}, {1, 2}}));
  EXPECT_EQ(train::roots_of({5, 10}), (std::vector<ShardNode>{{0, 5}, {1, 3}, {1, 4}}));
}

// Numbers whose sum depends on the order: all ways to share them give one sum.
TEST(ShardTree, OneSumForAnyNumberOfRanks) {
  for (const std::int64_t shards : {1, 2, 3, 6, 7, 12, 24}) {
    float expected = 0;
    for (int ranks = 1; ranks <= shards; ++ranks) {
      if (shards % ranks != 0) {
        EXPECT_THROW(train::shards_of_rank(shards, 0, ranks), Error);
        continue;
      }
      std::map<train::ShardNode, train::ShardValues> subtrees;
      for (int rank = 0; rank < ranks; ++rank)
        for (const train::ShardNode& root : train::roots_of(train::shards_of_rank(shards, rank, ranks))) {
          std::map<train::ShardNode, train::ShardValues> leaves;
          const std::int64_t begin = root.index << root.level, end = std::min(shards, (root.index + 1) << root.level);
          for (std::int64_t s = 0; s < end - begin; ++s)
            leaves[{0, s}] = {full({}, 1.0 / static_cast<double>(3 * (begin + s) + 1))};
          subtrees[root] = train::sum_of_shards(end - begin, leaves);
        }
      const float sum = train::sum_of_shards(shards, subtrees)[0].item<float>();
      if (ranks == 1) expected = sum;
      EXPECT_EQ(sum, expected) << shards << " shards, " << ranks << " ranks";
    }
  }
}

TEST(ShardOptions, AnotherNumberOfShardsIsAnotherRun) {
  const TemporaryFolder folder;
  trained(dense_network(), options_for(4, folder / "run"));
  auto options = options_for(8, folder / "run");
  options.resume = true;
  EXPECT_THROW(trained(dense_network(), options), Error);
}

TEST(ShardOptions, WhatCannotBeIsRefused) {
  const auto refused = [](const train::FitOptions& options, const char* why) {
    auto model = dense_network();
    try {
      train::fit(model, data::digits({.train = 40, .test = 1}).train, options);
      FAIL() << why;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  refused(options_for(64, ""), "a batch of 32 cannot be cut into 64 shards");
  auto options = options_for(4, "");
  options.parallel.sync_batch_norm = true;
  refused(options, "leave sync_batch_norm out");
  auto model = dense_network();
  EXPECT_THROW(train::fit(model, data::part(data::digits({.train = 40, .test = 1}).train), options_for(4, "")), Error);
  EXPECT_THROW(optim::adam().over({Variable("w", ones({8}))}, {.shards = 4}), Error);
  EXPECT_NO_THROW(optim::adam().over({Variable("w", ones({8}))}).apply_whole({ones({8})}));
}

}  // namespace
}  // namespace varve::test
