#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "data/digits.h"
#include "data/fetch_hash.h"
#include "data/source_files.h"

namespace varve::data {
namespace {

struct Sample {
  std::vector<float> x = std::vector<float>(28 * 28);
  std::int32_t y = -1;
};

Sample sample(const Dataset& dataset, std::int64_t index) {
  Sample s;
  std::vector<float> scratch;
  dataset.read(index, 0, 0, reinterpret_cast<std::byte*>(s.x.data()), reinterpret_cast<std::byte*>(&s.y), scratch);
  return s;
}

TEST(Digits, AreWhatTheyAnnounce) {
  const Splits splits = digits();
  EXPECT_EQ(splits.train.size(), 60000);
  EXPECT_EQ(splits.test.size(), 10000);
  EXPECT_FALSE(splits.validation.defined());
  EXPECT_EQ(splits.train.x(), (TensorType{f32, {28, 28, 1}}));
  EXPECT_EQ(splits.train.y(), (TensorType{i32, {}}));
  EXPECT_EQ(splits.train.classes(), 10);
  EXPECT_EQ(splits.train.info().classes[7], "7");
  EXPECT_EQ(splits.train.streams(), 0);
}

// Whatever computes them: another machine, compiler or number of threads must draw these bytes.
TEST(Digits, AreTheSameOnEveryMachine) {
  Sha256 hash;
  const Splits splits = digits();
  for (const Dataset& part : {splits.train, splits.test}) {
    for (std::int64_t i = 0; i < 300; ++i) {
      const Sample s = sample(part, i);
      std::vector<std::uint8_t> bytes = {static_cast<std::uint8_t>(s.y)};
      for (const float value : s.x) bytes.push_back(static_cast<std::uint8_t>(std::lround(value * 255)));
      hash.add(std::as_bytes(std::span(bytes)));
    }
  }
  EXPECT_EQ(hash.hex(), "83957314ce5c62800cd91143d544bdbd6e56cfd783577d1e892c5fc53fb9d95b");
}

TEST(Digits, DoNotDependOnTheOrderOfReadingOrOnThreads) {
  const Dataset forward = digits({.train = 400}).train, together = digits({.train = 1000}).train;
  std::vector<std::vector<Sample>> found(4, std::vector<Sample>(400));
  std::vector<std::thread> threads;
  for (std::vector<Sample>& mine : found) {
    threads.emplace_back([&together, &mine] {
      for (std::int64_t i = 399; i >= 0; --i) mine[static_cast<std::size_t>(i)] = sample(together, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::int64_t i = 0; i < 400; ++i) {
    const Sample once = sample(forward, i), again = sample(forward, i);
    EXPECT_EQ(once.x, again.x);
    for (const std::vector<Sample>& mine : found) {
      EXPECT_EQ(mine[static_cast<std::size_t>(i)].x, once.x);
      EXPECT_EQ(mine[static_cast<std::size_t>(i)].y, once.y);
    }
  }
}

TEST(Digits, AreBalancedFromTheFirstTenOn) {
  const Dataset train = digits().train;
  std::set<std::vector<std::int32_t>> orders;
  for (std::int64_t ten = 0; ten < 20; ++ten) {
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < 10; ++i) labels.push_back(sample(train, ten * 10 + i).y);
    EXPECT_EQ(std::set<std::int32_t>(labels.begin(), labels.end()).size(), 10u);
    orders.insert(labels);
  }
  EXPECT_GT(orders.size(), 15u);
}

TEST(Digits, DifferFromOneAnotherAndBetweenSeedsAndParts) {
  std::set<std::vector<float>> seen;
  const Splits one = digits({.seed = 1}), two = digits({.seed = 2});
  for (const Dataset& part : {one.train, one.test, two.train, two.test}) {
    for (std::int64_t i = 0; i < 200; ++i) seen.insert(sample(part, i).x);
  }
  EXPECT_EQ(seen.size(), 800u);
}

TEST(Digits, HaveInkAndPaper) {
  const Dataset train = digits().train;
  for (std::int64_t i = 0; i < 500; ++i) {
    double ink = 0;
    for (const float value : sample(train, i).x) {
      ASSERT_GE(value, 0);
      ASSERT_LE(value, 1);
      ink += value > 0.5f;
    }
    EXPECT_GT(ink, 8) << i;
    EXPECT_LT(ink, 392) << i;
  }
}

// The nearest mean picture tells far more than chance and far less than everything: the shapes are learnable, and not
// by matching pixels.
TEST(Digits, AreNeitherNoiseNorTooEasy) {
  const Splits splits = digits();
  std::vector<std::vector<double>> means(10, std::vector<double>(28 * 28));
  for (std::int64_t i = 0; i < 2000; ++i) {
    const Sample s = sample(splits.train, i);
    for (std::size_t p = 0; p < s.x.size(); ++p) means[static_cast<std::size_t>(s.y)][p] += s.x[p] / 200.0;
  }
  int right = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const Sample s = sample(splits.test, i);
    std::map<double, std::int32_t> distances;
    for (std::int32_t digit = 0; digit < 10; ++digit) {
      double sum = 0;
      for (std::size_t p = 0; p < s.x.size(); ++p) {
        sum += std::pow(means[static_cast<std::size_t>(digit)][p] - double{s.x[p]}, 2);
      }
      distances.emplace(sum, digit);
    }
    right += distances.begin()->second == s.y;
  }
  EXPECT_GT(right, 500);
  EXPECT_LT(right, 850);
}

TEST(Digits, RefusesCountsOutOfRange) {
  expect_error([] { digits({.train = -1}); }, "digits: train must be from 0 to");
  expect_error([] { digits({.test = std::int64_t{1} << 40}); }, "digits: test must be from 0 to");
  EXPECT_EQ(digits({.train = 0}).train.size(), 0);
}

}  // namespace
}  // namespace varve::data
