#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "loader_sources.h"

namespace varve::data {
namespace {

using Batches = std::vector<std::vector<std::int64_t>>;

std::vector<std::int64_t> flat(const Batches& batches) {
  std::vector<std::int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(LoaderOrder, EverySampleOncePerEpoch) {
  const Batches batches = samples_of(Loader(numbered(103), {.batch = 10}));
  ASSERT_EQ(batches.size(), 11u);
  EXPECT_EQ(batches.front().size(), 10u);
  EXPECT_EQ(batches.back().size(), 3u);
  std::vector<std::int64_t> all = flat(batches);
  EXPECT_NE(all, counted(103));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, counted(103));
}

TEST(LoaderOrder, ComesFromSeedAndEpoch) {
  const auto order = [](std::int64_t seed, std::int64_t epoch) {
    return samples_of(Loader(numbered(50), {.batch = 7, .seed = seed, .epoch = epoch}));
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
  EXPECT_NE(order(1, 2), order(2, 2));
  EXPECT_NE(order(1, 2), order(2, 1));
}

TEST(LoaderOrder, IsTheSameForAnyNumberOfWorkers) {
  const Dataset set = numbered(203, {.height = 5, .width = 5}).map({random_crop(1), noise(0.1)});
  const auto pixels = [&](int workers, int prefetch) {
    std::vector<float> all;
    for (const Batch& batch : Loader(set, {.batch = 8, .seed = 3, .workers = workers, .prefetch = prefetch})) {
      const auto values = batch.x.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const std::vector<float> alone = pixels(0, 4);
  EXPECT_EQ(alone.size(), 203u * 25);
  for (const auto& [workers, prefetch] : {std::pair{1, 4}, {1, 1}, {3, 2}, {8, 5}})
    EXPECT_EQ(pixels(workers, prefetch), alone) << workers << " workers, " << prefetch << " ahead";
}

TEST(LoaderOrder, WithoutShuffleIsThatOfTheSet) {
  EXPECT_EQ(flat(samples_of(Loader(numbered(20), {.batch = 6, .shuffle = false}))), counted(20));
}

TEST(LoaderOrder, DropLastLeavesOutThePartialBatch) {
  const Batches batches = samples_of(Loader(numbered(20), {.batch = 6, .drop_last = true}));
  ASSERT_EQ(batches.size(), 3u);
  for (const auto& batch : batches) EXPECT_EQ(batch.size(), 6u);
  EXPECT_EQ(batch_count(20, 6, true), 3);
  EXPECT_EQ(batch_count(20, 6, false), 4);
  EXPECT_EQ(batch_count(18, 6, false), 3);
  EXPECT_EQ(batch_count(0, 6, false), 0);
}

TEST(LoaderOrder, SkippedBatchesAreNeverRead) {
  const auto source = std::make_shared<Numbered>(50);
  const Dataset set(source, {});
  const Batches whole = samples_of(Loader(set, {.batch = 8, .seed = 5, .epoch = 2}));
  source->reads = 0;
  const Batches rest = samples_of(Loader(set, {.batch = 8, .seed = 5, .epoch = 2, .skip = 4}));
  EXPECT_EQ(rest, Batches(whole.begin() + 4, whole.end()));
  EXPECT_EQ(source->reads, 50 - 4 * 8);
  EXPECT_TRUE(samples_of(Loader(set, {.batch = 8, .skip = 7})).empty());
  EXPECT_THROW(Loader(set, {.batch = 8, .skip = 8}), Error);
}

TEST(LoaderOrder, RanksShareEachBatchInOrder) {
  const auto of_rank = [](int rank, int ranks) {
    return samples_of(Loader(numbered(46), {.batch = 10, .seed = 4, .rank = rank, .ranks = ranks}));
  };
  const Batches whole = of_rank(0, 1);
  Batches joined(whole.size());
  for (int rank = 0; rank < 3; ++rank) {
    const Batches mine = of_rank(rank, 3);
    ASSERT_EQ(mine.size(), whole.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      EXPECT_GE(mine[i].size(), whole[i].size() / 3);
      EXPECT_LE(mine[i].size(), whole[i].size() / 3 + 1);
      joined[i].insert(joined[i].end(), mine[i].begin(), mine[i].end());
    }
  }
  EXPECT_EQ(joined, whole);
}

TEST(LoaderOrder, StreamsKeepTheirOrder) {
  const Dataset set = numbered(12, {.streams = 4});
  EXPECT_EQ(flat(samples_of(Loader(set, {.batch = 4, .shuffle = true}))), counted(12));
  try {
    Loader(set, {.batch = 5});
    FAIL() << "a batch of 5 was accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("expected batch 4, got 5"), std::string::npos) << e.what();
  }
}

TEST(LoaderOrder, BadOptionsAreRefused) {
  const Dataset set = numbered(10);
  EXPECT_THROW(Loader(set, {.batch = 0}), Error);
  EXPECT_THROW(Loader(set, {.batch = -1}), Error);
  EXPECT_THROW(Loader(set, {.batch = INT64_MAX}), Error);
  EXPECT_THROW(Loader(set, {.epoch = -1}), Error);
  EXPECT_THROW(Loader(set, {.skip = -1}), Error);
  EXPECT_THROW(Loader(set, {.workers = -1}), Error);
  EXPECT_THROW(Loader(set, {.workers = 100000}), Error);
  EXPECT_THROW(Loader(set, {.prefetch = 0}), Error);
  EXPECT_THROW(Loader(set, {.mixup = -0.1}), Error);
  EXPECT_THROW(Loader(set, {.rank = 1, .ranks = 1}), Error);
  EXPECT_THROW(Loader(set, {.batch = 2, .rank = 0, .ranks = 3}), Error);
  EXPECT_THROW(Loader(Dataset(), {}), Error);
}

TEST(LoaderOrder, AnEmptySetHasNoBatches) {
  EXPECT_TRUE(samples_of(Loader(numbered(0), {.batch = 4})).empty());
  EXPECT_EQ(Loader(numbered(0), {.batch = 4}).batches(), 0);
}

}  // namespace
}  // namespace varve::data
