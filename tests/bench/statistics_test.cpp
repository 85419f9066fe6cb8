// Medians, quartiles and intervals, on samples whose answers are known.
#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "varve/error.h"

namespace varve::bench {
namespace {

TEST(Statistics, QuantilesLieBetweenNeighbours) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({4, 1}), 2.5);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(quantile({1, 2, 3, 4, 5}, 0.25), 2);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 0.75), 3.25);
  EXPECT_EQ(quantile({7, 7}, 0), 7);
  EXPECT_EQ(quantile({2, 8}, 1), 8);
  EXPECT_THROW(median({}), Error);
}

TEST(Statistics, DeviationIsOfASample) {
  EXPECT_DOUBLE_EQ(mean({2, 4, 9}), 5);
  EXPECT_DOUBLE_EQ(deviation({2, 4, 9}), std::sqrt(13.0));
  EXPECT_EQ(deviation({5}), 0);
}

TEST(Statistics, IntervalHoldsTheRatioAndRepeats) {
  const Groups slow = {{20, 21, 19, 20.5, 20}, {20.2, 19.8, 20, 21, 19.9}}, fast = {{10, 10.5, 9.5, 10, 10.2}};
  const Interval i = ratio_interval(slow, fast);
  EXPECT_TRUE(i.contains(2)) << i.low << " " << i.high;
  EXPECT_GT(i.low, 1.8);
  EXPECT_LT(i.high, 2.25);
  const Interval again = ratio_interval(slow, fast);
  EXPECT_EQ(i.low, again.low);
  EXPECT_EQ(i.high, again.high);
  const Interval one = ratio_interval(slow, fast, {.rounds = 7}),
                 other = ratio_interval(slow, fast, {.rounds = 7, .seed = 2});
  EXPECT_TRUE(one.low != other.low || one.high != other.high);
}

TEST(Statistics, ConstantSamplesLeaveNoDoubt) {
  const Interval i = ratio_interval({{6, 6, 6}}, {{3, 3, 3, 3}});
  EXPECT_EQ(i.low, 2);
  EXPECT_EQ(i.high, 2);
}

// Processes that differ more than the samples within them make the interval wide; pooled samples would not.
TEST(Statistics, ProcessesCountAsOneDraw) {
  const Groups bimodal = {{10, 10, 10, 10}, {20, 20, 20, 20}}, steady = {{10, 10, 10}};
  const Interval i = ratio_interval(bimodal, steady);
  EXPECT_EQ(i.low, 1);
  EXPECT_EQ(i.high, 2);
}

TEST(Statistics, EmptyProcessesAreLeftOut) {
  EXPECT_EQ(ratio_interval({{}, {4}}, {{2}, {}}).high, 2);
  EXPECT_THROW(ratio_interval({{}}, {{1}}), Error);
}

}  // namespace
}  // namespace varve::bench
