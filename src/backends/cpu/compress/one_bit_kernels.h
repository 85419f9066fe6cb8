// The two passes that make one bit of each gradient entry, and the one that adds such bits up: a tile at a time.
#pragma once

#include <cstdint>

namespace varve::cpu {

// Entries of a tile: a multiple of 8, so that tiles begin with a byte of bits.
inline constexpr std::int64_t kOneBitTile = 1024;

// Running sums of a tile's columns; neighbours in the tile are neighbours here.
struct OneBitSums {
  float *above, *below, *count;  // of entries from 0 on, of those below, and how many are from 0 on
};
struct OneBitMeans {
  const float *above, *below;
};

void one_bit_gather(const float* x, const float* kept, std::int64_t n, const OneBitSums& sums);
// Bit i: entry i is from 0 on. `rest`, which may be `kept`, gets what the mean in its place lacks.
void one_bit_split(const float* x, const float* kept, std::int64_t n, const OneBitMeans& means, float* rest,
                   std::uint8_t* bits);
// out = (out + the means that the bits stand for) · scale; without the first term where `first`.
void one_bit_add(const std::uint8_t* bits, std::int64_t n, const OneBitMeans& means, bool first, float scale,
                 float* out);

}  // namespace varve::cpu
