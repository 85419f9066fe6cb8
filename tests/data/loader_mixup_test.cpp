#include "data/loader_mixup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "loader_sources.h"

namespace varve::data {
namespace {

TEST(Mixup, BlendsSamplesAndTargetsAlike) {
  const Dataset set = numbered(64, {.classes = 64});
  int blended = 0;
  std::set<float> weights;  // of the better half: one in each batch
  for (const Batch& batch : Loader(set, {.batch = 16, .seed = 2, .mixup = 1.0})) {
    ASSERT_EQ(batch.y.type(), (TensorType{f32, {16, 64}}));
    const std::vector<float> x = batch.x.to_vector<float>(), y = batch.y.to_vector<float>();
    for (std::size_t i = 0; i < 16; ++i) {
      float sum = 0, expected = 0;
      int named = 0;
      for (std::size_t c = 0; c < 64; ++c) {
        const float weight = y[i * 64 + c];
        EXPECT_GE(weight, 0);
        sum += weight;
        named += weight > 0;
        expected += weight * static_cast<float>(c);  // sample c has pixels c and class c
      }
      EXPECT_NEAR(sum, 1, 1e-6);
      EXPECT_LE(named, 2);
      blended += named == 2;
      EXPECT_NEAR(x[2 * i], expected, 1e-4);
      EXPECT_EQ(x[2 * i], x[2 * i + 1]);
    }
    weights.insert(std::accumulate(y.begin(), y.end(), 0.f, [](float most, float weight) {
      return weight < 0.999f ? std::max(most, weight) : most;  // 1: a sample blended with itself
    }));
  }
  EXPECT_GT(blended, 40);
  EXPECT_EQ(weights.size(), 4u);
}

// By one process or by two: the same partners, within quarters of a batch.
TEST(Mixup, MixesWithinShards) {
  const auto targets = [](int rank, int ranks) {
    const LoaderOptions options{
        .batch = 18, .seed = 2, .workers = 0, .mixup = 1.0, .shards = 4, .rank = rank, .ranks = ranks};
    std::vector<std::vector<float>> rows;
    for (const Batch& batch : Loader(numbered(40, {.classes = 40}), options)) {
      const std::vector<float> y = batch.y.to_vector<float>();
      for (std::int64_t i = 0; i < batch.y.dim(0); ++i) rows.emplace_back(y.begin() + i * 40, y.begin() + i * 40 + 40);
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  auto both = targets(0, 2);
  for (const auto& row : targets(1, 2)) both.push_back(row);
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, targets(0, 1));
  EXPECT_THROW(Loader(numbered(40), {.batch = 18, .shards = 4, .rank = 0, .ranks = 3}), Error);
}

TEST(Mixup, DependsOnSeedEpochAndBatchAlone) {
  const auto targets = [](std::int64_t seed, std::int64_t epoch, std::int64_t skip, int workers) {
    std::vector<std::vector<float>> all;
    const LoaderOptions options{
        .batch = 8, .seed = seed, .epoch = epoch, .skip = skip, .workers = workers, .mixup = 0.4};
    for (const Batch& batch : Loader(numbered(40), options)) all.push_back(batch.y.to_vector<float>());
    return all;
  };
  const auto all = targets(1, 0, 0, 0);
  EXPECT_EQ(targets(1, 0, 0, 3), all);
  EXPECT_EQ(targets(1, 0, 2, 1), decltype(all)(all.begin() + 2, all.end()));
  EXPECT_NE(targets(1, 1, 0, 0), all);
  EXPECT_NE(targets(2, 0, 0, 0), all);
}

TEST(Mixup, RowsMixAlongCycles) {
  std::vector<float> x = {1, 10, 2, 20, 3, 30, 4, 40}, spare(2);
  mix_rows(x, std::vector<std::int64_t>{1, 2, 0, 3}, 0.75f, spare);
  EXPECT_EQ(x, (std::vector<float>{1.25, 12.5, 2.25, 22.5, 2.5, 25, 4, 40}));
}

TEST(Mixup, ALabelThatIsNoClassIsRefused) {
  std::vector<float> y(4);
  EXPECT_THROW(mix_targets(y, std::vector<std::int64_t>{0, 2}, std::vector<std::int64_t>{1, 0}, 0.5f, 2), Error);
  EXPECT_THROW(mix_targets(y, std::vector<std::int64_t>{-1, 0}, std::vector<std::int64_t>{1, 0}, 0.5f, 2), Error);
}

// Beta(α, α) has mean 1/2 and variance 1 / (4 (2α + 1)).
TEST(Mixup, WeightsAreBetaDistributed) {
  for (const double alpha : {0.01, 0.2, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    const int draws = 20000;
    Random random(9, 0, 0);
    for (int i = 0; i < draws; ++i) {
      const double value = beta(alpha, random);
      ASSERT_TRUE(value >= 0 && value <= 1) << value;
      sum += value;
      squares += (value - 0.5) * (value - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / draws, 0.5, 5 * std::sqrt(variance / draws)) << alpha;
    EXPECT_NEAR(squares / draws, variance, 0.03 * variance) << alpha;
  }
}

TEST(Mixup, NeedsPicturesOfNumbersAndOneClassEach) {
  class Words : public Numbered {
   public:
    using Numbered::Numbered;
    TensorType x() const override { return {i32, {2}}; }
  };
  EXPECT_THROW(Loader(Dataset(std::make_shared<Words>(10), {}), {.mixup = 0.2}), Error);
}

}  // namespace
}  // namespace varve::data
