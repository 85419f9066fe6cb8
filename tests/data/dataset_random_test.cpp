#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/philox.h"
#include "varve/data.h"

namespace varve::data {
namespace {

TEST(Random, IsThePhiloxOfTheHouse) {
  Random random(5, 3, (std::uint64_t{1} << 40) + 7);
  for (std::uint64_t i = 0; i < 9; ++i)
    EXPECT_EQ(random.uniform(), random_bits(5, 3, (std::uint64_t{1} << 40) + 7, i) * 0x1p-32) << i;
}

TEST(Random, EveryKeyHasNumbersOfItsOwn) {
  std::set<double> first;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch)
      for (std::uint64_t index = 0; index < 4; ++index) first.insert(Random(seed, epoch, index).uniform());
  EXPECT_EQ(first.size(), 64u);
}

TEST(Random, IntegersAreEvenAndWithinBounds) {
  Random random(1, 2, 3);
  int counts[6] = {};
  for (int i = 0; i < 60000; ++i) {
    const std::int64_t value = random.integer(6);
    ASSERT_TRUE(value >= 0 && value < 6);
    ++counts[value];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * std::sqrt(10000 * 5.0 / 6));
  EXPECT_EQ(random.integer(1), 0);
  EXPECT_THROW(random.integer(0), Error);
  EXPECT_THROW(random.integer(-1), Error);
}

TEST(Random, LargeIntegersUseAllBits) {
  Random random(1, 2, 3);
  const std::int64_t many = std::int64_t{3} << 60;
  int upper = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::int64_t value = random.integer(many);
    ASSERT_TRUE(value >= 0 && value < many);
    upper += value >= many / 3 * 2;
  }
  EXPECT_NEAR(upper, 1000, 5 * std::sqrt(3000 * 2.0 / 9));
}

TEST(Random, NormalsHaveMeanZeroAndDeviationOne) {
  Random random(4, 0, 0);
  double sum = 0, squares = 0;
  const int draws = 40000;
  for (int i = 0; i < draws; ++i) {
    const double z = random.normal();
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / draws, 0, 5 / std::sqrt(draws));
  EXPECT_NEAR(squares / draws, 1, 5 * std::sqrt(2.0 / draws));
}

}  // namespace
}  // namespace varve::data
