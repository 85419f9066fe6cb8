#include "base/philox.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/hash.h"

namespace varve {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, PublishedVectors) {  // kat_vectors of Random123
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AnySplitGivesTheSameBits) {
  constexpr std::uint64_t seed = 7, counter = 5;
  const std::uint64_t stream = stream_id("block/0/dropout");
  std::vector<std::uint32_t> whole(1000), part(1000);
  fill_bits(whole.data(), 0, 1000, seed, stream, counter);
  for (std::int64_t begin = 0, step = 1; begin < 1000; begin += step++) {
    fill_bits(part.data() + begin, begin, std::min<std::int64_t>(step, 1000 - begin), seed, stream, counter);
  }
  EXPECT_EQ(whole, part);
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(whole[i], random_bits(seed, stream, counter, i));
  // Past 2^32 blocks the second counter word takes part.
  const std::int64_t far = (std::int64_t{1} << 34) - 6;
  fill_bits(part.data(), far, 12, seed, stream, counter);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(part[static_cast<std::size_t>(i)],
              random_bits(seed, stream, counter, static_cast<std::uint64_t>(far + i)));
  }
}

TEST(Philox, SeedStreamAndCounterAllMatter) {
  EXPECT_NE(random_bits(1, 2, 3, 4), random_bits(2, 2, 3, 4));
  EXPECT_NE(random_bits(1, 2, 3, 4), random_bits(1, 3, 3, 4));
  EXPECT_NE(random_bits(1, 2, 3, 4), random_bits(1, 2, 4, 4));
  EXPECT_NE(random_bits(1, 2, 3, 4), random_bits(1, 2, 3, 5));
  EXPECT_NE(random_bits(1, 2, 3, 4), random_bits(1, 2, 3 + (std::uint64_t{1} << 32), 4));
  EXPECT_NE(random_bits(1, 2, 0, 0), random_bits(2, 1, 0, 0));
  EXPECT_EQ(stream_id(""), 0xCBF29CE484222325u);
  EXPECT_EQ(stream_id("foobar"), 0x85944171F73967E8u);  // published FNV-1a vector
}

TEST(Philox, UniformIsInRangeAndEven) {
  EXPECT_EQ(uniform01(0), 0.0f);
  EXPECT_LT(uniform01(~0u), 1.0f);
  std::vector<float> u(100'000);
  fill_uniform(u.data(), 0, 100'000, 1, 2, 3);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    ASSERT_EQ(u[i], uniform01(random_bits(1, 2, 3, i)));
    sum += u[i];
    squares += double{u[i]} * u[i];
  }
  EXPECT_NEAR(sum / 1e5, 0.5, 0.004);
  EXPECT_NEAR(squares / 1e5, 1.0 / 3, 0.004);
}

// The upper tail of the normal distribution.
double tail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

TEST(Philox, NormalInvertsTheDistributionFunction) {
  for (std::uint64_t m = 0; m < (1u << 31); m += 1 + m / 16 + 7 * (m > 1000)) {
    const double t = (static_cast<double>(m) + 0.5) / 4294967296.0;
    const double z = normal_from_bits(static_cast<std::uint32_t>(m));
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0));
    const double error = (tail(z) - t) / density;  // of z, to first order
    EXPECT_LT(std::fabs(error), 1e-6 * std::max(std::fabs(z), 0.1)) << m;
    EXPECT_EQ(normal_from_bits(static_cast<std::uint32_t>(m) | 0x80000000u), -static_cast<float>(z));
  }
  EXPECT_LT(normal_from_bits(0), 6.4f);
}

TEST(Philox, NormalIsPinned) {
  std::vector<float> z(100'003);
  fill_normal(z.data(), 0, 100'003, 42, stream_id("pinned"), 1);
  double sum = 0, squares = 0, fourth = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    ASSERT_EQ(z[i], normal_from_bits(random_bits(42, stream_id("pinned"), 1, i)));
    sum += z[i];
    squares += double{z[i]} * z[i];
    fourth += std::pow(double{z[i]}, 4);
  }
  EXPECT_NEAR(sum / 1e5, 0, 0.015);
  EXPECT_NEAR(squares / 1e5, 1, 0.02);
  EXPECT_NEAR(fourth / 1e5, 3, 0.15);
  // The bits of these numbers are a promise: a run must repeat on every machine, compiler and device.
  EXPECT_EQ(hash_bytes(z.data(), z.size() * sizeof(float)), 5202744103171426259u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(z[0]), 3219234370u);
}

}  // namespace
}  // namespace varve
