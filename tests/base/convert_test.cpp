#include "base/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace varve {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Convert, FloatingToIntegerTruncatesAndSaturates) {
  struct Row {
    double value;
    std::int64_t as_i64, as_i32, as_i8, as_u8;
  };
  const Row rows[] = {
      {1.9, 1, 1, 1, 1},
      {-1.9, -1, -1, -1, 0},
      {127.5, 127, 127, 127, 127},
      {300, 300, 300, 127, 255},
      {-300, -300, -300, -128, 0},
      {1e30, INT64_MAX, INT32_MAX, 127, 255},
      {-kInf, INT64_MIN, INT32_MIN, -128, 0},
      {9223372036854775808.0, INT64_MAX, INT32_MAX, 127, 255},
      {kNan, 0, 0, 0, 0},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(cast_to<std::int64_t>(row.value), row.as_i64) << row.value;
    EXPECT_EQ(cast_to<std::int32_t>(row.value), row.as_i32) << row.value;
    EXPECT_EQ(cast_to<std::int8_t>(row.value), row.as_i8) << row.value;
    EXPECT_EQ(cast_to<std::uint8_t>(row.value), row.as_u8) << row.value;
  }
}

TEST(Convert, IntegersWrapAndBoolIsNotZero) {
  EXPECT_EQ(cast_to<std::int8_t>(std::int64_t{200}), -56);
  EXPECT_EQ(cast_to<std::uint8_t>(std::int32_t{-1}), 255);
  EXPECT_EQ(cast_to<std::int32_t>(std::int64_t{1} << 32), 0);
  EXPECT_TRUE(cast_to<bool>(0.1));
  EXPECT_TRUE(cast_to<bool>(kNan));
  EXPECT_FALSE(cast_to<bool>(-0.0f));
  EXPECT_TRUE(cast_to<bool>(half(0.5f)));
  EXPECT_FALSE(cast_to<bool>(half(-0.0f)));
  EXPECT_EQ(cast_to<float>(true), 1.0f);
}

TEST(Convert, NarrowingRoundsOnce) {
  // Just above the tie between 1 and 1 + 2^-10: by way of float it would first become the tie, then 1.
  EXPECT_EQ(cast_to<half>(1 + 0x1p-11 + 0x1p-40).bits, half(1 + 0x1p-10f).bits);
  EXPECT_EQ(cast_to<half>(1 + 0x1p-11).bits, half(1.0f).bits);
  EXPECT_EQ(cast_to<bfloat16>(1 + 0x1p-8 + 0x1p-40).bits, bfloat16(1 + 0x1p-7f).bits);
  EXPECT_EQ(cast_to<bfloat16>(-(1 + 0x1p-8 + 0x1p-40)).bits, bfloat16(-(1 + 0x1p-7f)).bits);
  EXPECT_EQ(cast_to<half>(1e300).bits, 0x7C00);
  EXPECT_EQ(cast_to<bfloat16>(-1e300).bits, 0xFF80);
  EXPECT_EQ(cast_to<half>(1e-300).bits, 0);
  EXPECT_TRUE(std::isnan(static_cast<float>(cast_to<half>(kNan))));
}

TEST(Convert, EveryPairKeepsSmallIntegers) {
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      std::vector<std::byte> src(100 * size_of(from)), dst(100 * size_of(to));
      for (std::int64_t i = 0; i < 100; ++i) store_i(src.data(), from, i, i);
      convert(src.data(), from, dst.data(), to, 100);
      for (std::int64_t i = 0; i < 100; ++i) {
        const std::int64_t expected = from == boolean || to == boolean ? i != 0 : i;
        EXPECT_EQ(load_i(dst.data(), to, i), expected) << name(from) << " to " << name(to);
        EXPECT_EQ(load_f(dst.data(), to, i), static_cast<double>(expected));
      }
    }
  }
}

TEST(Convert, LargeIntegersKeepEveryBit) {
  const std::int64_t big = (std::int64_t{1} << 62) + 1;
  std::int64_t stored = 0;
  store_i(&stored, i64, 0, big);
  EXPECT_EQ(load_i(&stored, i64, 0), big);
  const std::uint8_t truths[] = {0, 1, 2, 255};  // as files may hold them
  std::uint8_t clean[4];
  convert(truths, boolean, clean, boolean, 4);
  EXPECT_EQ(clean[3], 1);
  EXPECT_EQ(load_f(truths, boolean, 2), 1);
}

}  // namespace
}  // namespace varve
