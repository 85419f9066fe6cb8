// Random numbers that are a pure function of (seed, stream, counter, index): the same bits on every device, for any
// split of the work and any number of threads. Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011).
//
// The mapping, which every backend must follow:
//   key      = mix64(seed ^ mix64(stream)), low word first        (mix64: the SplitMix64 step, below)
//   counter  = { lo(index / 4), hi(index / 4), lo(counter), hi(counter) }
//   bits     = philox(counter, key)[index % 4]
//   uniform  = uniform01(bits); normal = normal_from_bits(bits)
// Floating-point steps are single IEEE operations (+ - * / sqrt, never fused): compile with -ffp-contract=off
// (CUDA: --fmad=false, --prec-div=true, --prec-sqrt=true, --ftz=false).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace varve {

constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int turn = 0; turn < 10; ++turn) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

constexpr std::array<std::uint32_t, 2> philox_key(std::uint64_t seed, std::uint64_t stream) {
  const std::uint64_t key = mix64(seed ^ mix64(stream));
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

constexpr std::uint32_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter,
                                    std::uint64_t index) {
  const std::uint64_t block = index / 4;
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                 static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32)},
                philox_key(seed, stream))[index % 4];
}

// In [0, 1): the upper 24 bits, every value exact.
constexpr float uniform01(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Standard normal by the inverse of its distribution function (Wichura's AS 241, PPND7): one draw per 32 bits,
// symmetric (the top bit is the sign), |z| < 6.4, relative error below 1e-6.
float normal_from_bits(std::uint32_t bits);

// FNV-1a of a path such as "encoder/3/dropout": the name of a stream.
constexpr std::uint64_t stream_id(std::string_view path) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

// out[i] = the number of logical index begin + i, for i in [0, count). Serial; split freely.
void fill_bits(std::uint32_t* out, std::int64_t begin, std::int64_t count, std::uint64_t seed, std::uint64_t stream,
               std::uint64_t counter);
void fill_uniform(float* out, std::int64_t begin, std::int64_t count, std::uint64_t seed, std::uint64_t stream,
                  std::uint64_t counter);
void fill_normal(float* out, std::int64_t begin, std::int64_t count, std::uint64_t seed, std::uint64_t stream,
                 std::uint64_t counter);

}  // namespace varve
