// Samples of different lengths, samples that count more than others, and samples that are drawn more often.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "data/buckets.h"
#include "loader_sources.h"
#include "varve/ops.h"

namespace varve::data {
namespace {

std::string message_of_loader(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::int64_t own_length(std::int64_t sample) { return sample % 20 + 1; }

// Sample i: its number at each of its steps, of 20, and a target for each step.
Dataset ragged(std::int64_t samples, std::int64_t steps = 20) {
  std::vector<std::int32_t> x(static_cast<std::size_t>(samples * steps), 0);
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < samples; ++i) {
    lengths.push_back(own_length(i));
    for (std::int64_t t = 0; t < lengths.back(); ++t)
      x[static_cast<std::size_t>(i * steps + t)] = static_cast<std::int32_t>(i + 1);
  }
  const Tensor rows = tensor(x, {samples, steps});
  return from_tensors(rows, rows * 2).with_lengths(lengths);
}

TEST(LoaderLengths, BatchesSayHowLongTheirSamplesAre) {
  const Dataset set = ragged(45);
  EXPECT_TRUE(set.varies());
  for (const Batch& batch : Loader(set, {.batch = 10})) {
    EXPECT_EQ(batch.x.dim(1), 20);
    const auto lengths = batch.lengths.to_vector<std::int64_t>(),
               first = batch.x.slice({{}, {0, 1}}).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < lengths.size(); ++i) EXPECT_EQ(lengths[i], own_length(first[i] - 1));
    EXPECT_EQ(batch.mask().valid().shape(), batch.x.shape());
    const Batch part = batch.rows(1, 3);
    EXPECT_EQ(part.lengths.to_vector<std::int64_t>(), (std::vector<std::int64_t>{lengths[1], lengths[2]}));
  }
  for (const Batch& batch : Loader(numbered(8), {.batch = 4})) EXPECT_FALSE(batch.mask().defined());
}

TEST(LoaderLengths, BucketsHoldSimilarSamplesAndLoseNone) {
  const Dataset set = ragged(205);
  const auto read = [&](LoaderOptions options) {
    options.batch = 10;
    std::vector<std::int64_t> samples, steps;
    std::int64_t padded = 0;
    Loader loader(set, options);
    EXPECT_EQ(loader.batches(), 21);
    for (const Batch& batch : loader) {
      steps.push_back(batch.x.dim(1));
      EXPECT_EQ(batch.y.dim(1), batch.x.dim(1));  // targets of each step end with them
      const auto lengths = batch.lengths.to_vector<std::int64_t>();
      const auto values = batch.x.to_vector<std::int64_t>(), targets = batch.y.to_vector<std::int64_t>();
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        EXPECT_LE(lengths[i], batch.x.dim(1));
        padded += batch.x.dim(1) - lengths[i];
        const auto row = i * static_cast<std::size_t>(batch.x.dim(1));
        samples.push_back(values[row] - 1);
        EXPECT_EQ(targets[row], 2 * values[row]);
        EXPECT_EQ(own_length(samples.back()), lengths[i]);
      }
    }
    std::vector<std::int64_t> sorted = samples, all(205);
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    return std::tuple(samples, padded, static_cast<std::int64_t>(steps.size()));
  };
  const auto [whole, much, one] = read({.seed = 3});
  const auto [bucketed, little, few] = read({.seed = 3, .buckets = 4});
  EXPECT_EQ(one, 1);
  EXPECT_LE(few, 4);
  EXPECT_LT(little, much / 3);
  EXPECT_EQ(std::get<0>(read({.seed = 3, .workers = 3, .buckets = 4})), bucketed);
  EXPECT_NE(std::get<0>(read({.seed = 4, .buckets = 4})), bucketed);
  EXPECT_EQ(std::get<0>(read({.shuffle = false, .buckets = 4})).size(), 205u);
}

TEST(LoaderLengths, SharesOfABatchArePaddedAlike) {
  const Dataset set = ragged(40);
  std::vector<std::int64_t> steps[2];
  for (int rank = 0; rank < 2; ++rank)
    for (const Batch& batch : Loader(set, {.batch = 8, .rank = rank, .ranks = 2, .buckets = 3}))
      steps[rank].push_back(batch.x.dim(1));
  EXPECT_EQ(steps[0], steps[1]);
}

TEST(LoaderLengths, AreChosenSoThatLittleIsPadded) {
  EXPECT_EQ(bucket_lengths({1, 1, 1, 9, 9, 10}, 2), (std::vector<std::int64_t>{1, 10}));
  EXPECT_EQ(bucket_lengths({1, 1, 1, 9, 9, 10}, 3), (std::vector<std::int64_t>{1, 9, 10}));
  EXPECT_EQ(bucket_lengths({5, 5, 5}, 4), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(bucket_lengths({0, 0}, 2), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(bucket_lengths({}, 2), (std::vector<std::int64_t>{}));
  std::vector<std::int64_t> many(20000);
  std::iota(many.begin(), many.end(), 1);
  EXPECT_EQ(bucket_lengths(many, 4).back(), 20000);
  EXPECT_NEAR(static_cast<double>(bucket_lengths(many, 2).front()), 10000, 100);
}

TEST(LoaderLengths, ViewsKeepLengthsAndWeights) {
  std::vector<double> weights(45);
  std::iota(weights.begin(), weights.end(), 0.0);
  const Dataset part = ragged(45).with_weights(weights).subset({7, 30});
  EXPECT_EQ(part.length(1), own_length(30));
  EXPECT_EQ(part.weight(0), 7);
  for (const Batch& batch : Loader(part, {.batch = 2, .shuffle = false}))
    EXPECT_EQ(batch.weight.to_vector<float>(), (std::vector<float>{7, 30}));
}

Dataset uneven_classes() {  // 90, 9 and 1
  std::vector<std::int32_t> x(100), y(100);
  for (std::size_t i = 0; i < 100; ++i) {
    x[i] = static_cast<std::int32_t>(i);
    y[i] = i < 90 ? 0 : i < 99 ? 1 : 2;
  }
  return from_tensors(tensor(x), tensor(y));
}

TEST(LoaderSampling, BalancedDrawsEachClassAlike) {
  std::map<std::int64_t, int> classes, samples;
  std::vector<std::int64_t> order;
  for (const Batch& batch : Loader(uneven_classes(), {.batch = 10, .seed = 1, .balanced = true})) {
    for (const std::int64_t y : batch.y.to_vector<std::int64_t>()) ++classes[y];
    for (const std::int64_t x : batch.x.to_vector<std::int64_t>()) ++samples[x], order.push_back(x);
  }
  EXPECT_EQ(order.size(), 100u);
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(classes[c], 100 / 3.0, 1) << c;
  for (std::int64_t i = 90; i < 99; ++i) EXPECT_GE(samples[i], 3);  // in turn
  std::vector<std::int64_t> again;
  for (const Batch& batch : Loader(uneven_classes(), {.batch = 10, .seed = 1, .workers = 3, .balanced = true}))
    for (const std::int64_t x : batch.x.to_vector<std::int64_t>()) again.push_back(x);
  EXPECT_EQ(again, order);
}

TEST(LoaderSampling, WeightsSayHowOften) {
  std::vector<double> weights(100, 0.0);
  weights[3] = 1, weights[99] = 3;
  std::map<std::int64_t, int> drawn;
  for (int epoch = 0; epoch < 20; ++epoch)
    for (const Batch& batch : Loader(uneven_classes(), {.batch = 50, .epoch = epoch, .sampling = weights}))
      for (const std::int64_t x : batch.x.to_vector<std::int64_t>()) ++drawn[x];
  EXPECT_EQ(drawn.size(), 2u);
  EXPECT_NEAR(drawn[99], 1500, 100);
}

TEST(LoaderSampling, SaysWhatDoesNotFit) {
  EXPECT_EQ(message_of_loader([] {
              Loader(uneven_classes(), {.sampling = {1, 2}});
            }),
            "loader: 2 sampling weights for 100 samples; expected one for each.");
  EXPECT_NE(message_of_loader([] { Loader(uneven_classes(), {.sampling = std::vector<double>(100, 0.0)}); }), "");
  EXPECT_NE(message_of_loader([] { Loader(uneven_classes(), {.shuffle = false, .balanced = true}); }), "");
  EXPECT_NE(message_of_loader([] { Loader(uneven_classes(), {.buckets = 4}); }).find("all have one"),
            std::string::npos);
  EXPECT_NE(message_of_loader([] { Loader(ragged(10), {.mixup = 0.2}); }), "");
  EXPECT_NE(message_of_loader([] {
              ragged(5).with_lengths({1, 2});
            }).find("2 lengths for 5 samples"),
            std::string::npos);
  EXPECT_NE(message_of_loader([] { ragged(2).with_lengths({1, 21}); }).find("expected 0 to 20"), std::string::npos);
  EXPECT_NE(message_of_loader([] { ragged(2).with_weights({1, -1}); }).find("0 or more"), std::string::npos);
}

}  // namespace
}  // namespace varve::data
