#include "base/philox.h"

#include <algorithm>
#include <bit>
#include <cmath>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace varve {
namespace {

// Natural logarithm of a positive normal float, to about one unit in the last place (the polynomial of Cephes' logf).
// Inlined by force, here and below: a call would keep the loop over it from becoming SIMD code.
[[gnu::always_inline]] inline float pinned_log(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  // Split x = m * 2^e with m in [sqrt(1/2), sqrt(2)): the constant is the bits of sqrt(1/2).
  const std::uint32_t shifted = bits - 0x3F3504F3u;
  const float e = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float f = std::bit_cast<float>((shifted & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
  const float f2 = f * f;
  float p = 7.0376836292e-2f;
  p = p * f + -1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f + -1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f + -1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f + -2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  // log 2 in two parts, the first short enough for e * high to be exact.
  float tail = p * f * f2;
  tail = tail + e * -2.12194440e-4f;
  tail = tail - 0.5f * f2;
  return f + tail + e * 0.693359375f;
}

constexpr int kBatch = 16;  // counters at a time
constexpr int kNumbers = 4 * kBatch;

#if defined(__AVX2__)

// Four counters at a time, each word in the lower half of a 64-bit lane: there one instruction gives the whole product
// that a round needs, and what a lane's upper half holds never matters. GCC does not find this by itself.
struct Four {
  __m256i c0, c1, c2, c3;

  Four(std::uint64_t block, std::uint64_t counter) {
    c0 = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(block)), _mm256_set_epi64x(3, 2, 1, 0));
    c1 = _mm256_srli_epi64(c0, 32);
    c2 = _mm256_set1_epi64x(static_cast<long long>(counter));
    c3 = _mm256_srli_epi64(c2, 32);
  }

  void round(__m256i key0, __m256i key1) {
    const __m256i p0 = _mm256_mul_epu32(c0, _mm256_set1_epi64x(0xD2511F53));
    const __m256i p1 = _mm256_mul_epu32(c2, _mm256_set1_epi64x(0xCD9E8D57));
    c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), key0);
    c1 = p1;
    c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), key1);
    c3 = p0;
  }

  void store(std::uint32_t* out) const {
    const __m256i first = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xAA);   // words 0 and 1 of each counter
    const __m256i second = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xAA);  // words 2 and 3
    const __m256i even = _mm256_unpacklo_epi64(first, second);                       // counters 0 and 2
    const __m256i odd = _mm256_unpackhi_epi64(first, second);                        // counters 1 and 3
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8), _mm256_permute2x128_si256(even, odd, 0x31));
  }
};

void philox_batch(std::uint64_t block, std::uint64_t counter, std::array<std::uint32_t, 2> key, std::uint32_t* out) {
  for (int done = 0; done < kBatch; done += 8) {
    const std::uint64_t first = block + static_cast<std::uint64_t>(done);
    Four a(first, counter), b(first + 4, counter);  // two at once hide the latency of the products
    __m256i key0 = _mm256_set1_epi64x(key[0]), key1 = _mm256_set1_epi64x(key[1]);
    for (int round = 0; round < 10; ++round) {
      a.round(key0, key1);
      b.round(key0, key1);
      key0 = _mm256_add_epi32(key0, _mm256_set1_epi64x(0x9E3779B9));
      key1 = _mm256_add_epi32(key1, _mm256_set1_epi64x(0xBB67AE85));
    }
    a.store(out + 4 * done);
    b.store(out + 4 * done + 16);
  }
}

#else

void philox_batch(std::uint64_t block, std::uint64_t counter, std::array<std::uint32_t, 2> key, std::uint32_t* out) {
  for (int i = 0; i < kBatch; ++i, ++block) {
    const std::array<std::uint32_t, 4> words =
        philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32)},
               key);
    std::copy(words.begin(), words.end(), out + 4 * i);
  }
}

#endif

// out[i] = finish(bits of begin + i): whole batches of counters, of which the first and last are used in part.
template <class T, class Finish>
void fill(T* out, std::int64_t begin, std::int64_t count, std::uint64_t seed, std::uint64_t stream,
          std::uint64_t counter, Finish finish) {
  const std::array<std::uint32_t, 2> key = philox_key(seed, stream);
  std::uint64_t index = static_cast<std::uint64_t>(begin);
  std::uint32_t bits[kNumbers];
  T values[kNumbers];
  while (count > 0) {
    philox_batch(index / 4, counter, key, bits);
    finish(bits, values);
    const std::int64_t skip = static_cast<std::int64_t>(index % 4);
    const std::int64_t taken = std::min<std::int64_t>(kNumbers - skip, count);
    std::copy_n(values + skip, taken, out);
    out += taken;
    count -= taken;
    index += static_cast<std::uint64_t>(taken);
  }
}

// Both branches and a choice, so that the loop over it vectorises.
[[gnu::always_inline]] inline float normal_of(std::uint32_t bits) {
  // The tail probability t in (0, 1/2], fine near 0, where it matters.
  const float t = (static_cast<float>(static_cast<std::int32_t>(bits & 0x7FFFFFFFu)) + 0.5f) * 0x1p-32f;
  const float q = 0.5f - t;

  const float c = 0.180625f - q * q;
  const float central = q * (((59.109374720f * c + 159.29113202f) * c + 50.434271938f) * c + 3.3871327179f) /
                        (((67.187563600f * c + 78.757757664f) * c + 17.895169469f) * c + 1.0f);

  const float r = std::sqrt(-pinned_log(t));
  const float near = r - 1.6f;
  const float middle = (((0.17023821103f * near + 1.3067284816f) * near + 2.7568153900f) * near + 1.4234372777f) /
                       ((0.12021132975f * near + 0.73700164250f) * near + 1.0f);
  // AS 241 has a third form for r > 5, that is t < 1.4e-11; 32 bits end at t = 2^-33, r = 4.78.
  const float z = q <= 0.425f ? central : middle;
  return (bits & 0x80000000u) != 0 ? -z : z;
}

}  // namespace

float normal_from_bits(std::uint32_t bits) { return normal_of(bits); }

void fill_bits(std::uint32_t* out, std::int64_t begin, std::int64_t count, std::uint64_t seed, std::uint64_t stream,
               std::uint64_t counter) {
  fill(out, begin, count, seed, stream, counter,
       [](const std::uint32_t* bits, std::uint32_t* values) { std::copy_n(bits, kNumbers, values); });
}

void fill_uniform(float* out, std::int64_t begin, std::int64_t count, std::uint64_t seed, std::uint64_t stream,
                  std::uint64_t counter) {
  fill(out, begin, count, seed, stream, counter, [](const std::uint32_t* bits, float* values) {
#pragma omp simd
    for (int i = 0; i < kNumbers; ++i) {
      values[i] = static_cast<float>(static_cast<std::int32_t>(bits[i] >> 8)) * 0x1p-24f;
    }
  });
}

void fill_normal(float* out, std::int64_t begin, std::int64_t count, std::uint64_t seed, std::uint64_t stream,
                 std::uint64_t counter) {
  fill(out, begin, count, seed, stream, counter, [](const std::uint32_t* bits, float* values) {
#pragma omp simd
    for (int i = 0; i < kNumbers; ++i) values[i] = normal_of(bits[i]);
  });
}

}  // namespace varve
