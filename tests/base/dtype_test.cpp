#include "varve/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "varve/error.h"

namespace varve {
namespace {

half half_of(std::uint16_t bits) {
  half h;
  h.bits = bits;
  return h;
}
bfloat16 bf16_of(std::uint16_t bits) {
  bfloat16 b;
  b.bits = bits;
  return b;
}

// The value of a half from its definition.
double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(DType, NamesAndSizes) {
  for (const DType t : kAllDTypes) {
    EXPECT_EQ(parse_dtype(name(t)), t);
    EXPECT_TRUE(size_of(t) == 1 || size_of(t) == 2 || size_of(t) == 4 || size_of(t) == 8);
  }
  EXPECT_STREQ(name(boolean), "bool");
  try {
    parse_dtype("fp32");
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("'fp32'"), std::string::npos) << text;
    EXPECT_NE(text.find("Did you mean 'f32'?"), std::string::npos) << text;
    EXPECT_NE(text.find("\"bf16\""), std::string::npos) << text;
  }
}

TEST(DType, Promotion) {
  for (const DType a : kAllDTypes) {
    EXPECT_EQ(promote(a, a), a);
    EXPECT_EQ(promote(a, boolean), a);
    for (const DType b : kAllDTypes) EXPECT_EQ(promote(a, b), promote(b, a));
  }
  EXPECT_EQ(promote(f16, bf16), f32);
  EXPECT_EQ(promote(i8, u8), i32);
  EXPECT_EQ(promote(i64, bf16), bf16);
  EXPECT_EQ(promote(f32, f64), f64);
  EXPECT_EQ(promote(i32, u8), i32);
}

TEST(Half, EveryValueWidensExactlyAndComesBack) {
  for (int i = 0; i < 65536; ++i) {
    const half h = half_of(static_cast<std::uint16_t>(i));
    const float wide = static_cast<float>(h);
    const int exponent = i >> 10 & 31;
    if (exponent == 31 && (i & 1023) != 0) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(static_cast<float>(half(wide))));
    } else {
      if (exponent == 31)
        EXPECT_EQ(std::fabs(wide), std::numeric_limits<float>::infinity());
      else
        EXPECT_EQ(wide, half_value(h.bits)) << i;
      EXPECT_EQ(half(wide).bits, i);
    }
  }
}

TEST(Half, RoundsToNearestEvenBetweenEveryPairOfNeighbours) {
  for (int i = 0; i < 0x7BFF; ++i) {
    const double low = half_value(static_cast<std::uint16_t>(i)), high = half_value(static_cast<std::uint16_t>(i + 1));
    const float middle = static_cast<float>((low + high) / 2);  // exact in float
    EXPECT_EQ(half(middle).bits, i % 2 == 0 ? i : i + 1) << i;
    EXPECT_EQ(half(std::nextafter(middle, 0.0f)).bits, i) << i;
    EXPECT_EQ(half(std::nextafter(middle, 1e9f)).bits, i + 1) << i;
    EXPECT_EQ(half(-middle).bits, (i % 2 == 0 ? i : i + 1) | 0x8000) << i;
  }
  EXPECT_EQ(half(65519.99f).bits, 0x7BFF);
  EXPECT_EQ(half(65520.0f).bits, 0x7C00);
  EXPECT_EQ(half(1e30f).bits, 0x7C00);
  EXPECT_EQ(half(-1e-30f).bits, 0x8000);
}

TEST(Bfloat16, RoundsToNearestEven) {
  for (int i = 0; i < 65536; ++i) {
    const bfloat16 b = bf16_of(static_cast<std::uint16_t>(i));
    const float wide = static_cast<float>(b);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(wide))));
      continue;
    }
    EXPECT_EQ(bfloat16(wide).bits, i);
    if ((i & 0x7FFF) >= 0x7F80) continue;
    const std::uint32_t bits = static_cast<std::uint32_t>(i) << 16;
    EXPECT_EQ(bfloat16(std::bit_cast<float>(bits | 0x7FFFu)).bits, i);
    EXPECT_EQ(bfloat16(std::bit_cast<float>(bits | 0x8001u)).bits, i + 1);
    EXPECT_EQ(bfloat16(std::bit_cast<float>(bits | 0x8000u)).bits, i % 2 == 0 ? i : i + 1);
  }
  EXPECT_EQ(bfloat16(3.4e38f).bits, 0x7F80);  // above the largest finite one
  // A NaN whose upper mantissa bits are zero must not become infinite.
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7F800001u)))));
}

}  // namespace
}  // namespace varve
