// Philox 4x32-10 and what is made of its bits, equal to src/base/philox.h bit for bit: every floating-point step is one
// IEEE operation, spelled so that none are contracted.
#pragma once

#include "kernels/prelude.cuh"

struct RandomKey {
  u32 low, high;
  u64 counter;
};

__device__ __forceinline__ u64 mix64(u64 x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
// `stream` comes mixed; seed and counter are read as the program runs.
__device__ __forceinline__ RandomKey random_key(const i64* seed, const i64* counter, u64 stream) {
  u64 key = mix64((u64)*seed ^ stream);
  return {(u32)key, (u32)(key >> 32), (u64)*counter};
}

// The bits of numbers 4 · block to 4 · block + 3.
struct FourWords {
  u32 at[4];
};
__device__ __forceinline__ FourWords philox(u64 block, const RandomKey& key) {
  u32 a = (u32)block, b = (u32)(block >> 32), c = (u32)key.counter, d = (u32)(key.counter >> 32);
  u32 k0 = key.low, k1 = key.high;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    u64 p0 = 0xD2511F53ull * a, p1 = 0xCD9E8D57ull * c;
    a = (u32)(p1 >> 32) ^ b ^ k0;
    b = (u32)p1;
    c = (u32)(p0 >> 32) ^ d ^ k1;
    d = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

__device__ __forceinline__ i64 bits_of(u32 bits) { return (i64)bits; }
// In [0, 1): exact.
__device__ __forceinline__ float uniform_of(u32 bits) { return (float)(int)(bits >> 8) * 0x1p-24f; }

__device__ __forceinline__ float madd(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }

__device__ __forceinline__ float pinned_log(float x) {
  u32 shifted = __float_as_uint(x) - 0x3F3504F3u;
  float e = (float)((int)shifted >> 23);
  float f = __fsub_rn(__uint_as_float((shifted & 0x007FFFFFu) + 0x3F3504F3u), 1.0f);
  float f2 = __fmul_rn(f, f);
  float p = 7.0376836292e-2f;
  p = madd(p, f, -1.1514610310e-1f);
  p = madd(p, f, 1.1676998740e-1f);
  p = madd(p, f, -1.2420140846e-1f);
  p = madd(p, f, 1.4249322787e-1f);
  p = madd(p, f, -1.6668057665e-1f);
  p = madd(p, f, 2.0000714765e-1f);
  p = madd(p, f, -2.4999993993e-1f);
  p = madd(p, f, 3.3333331174e-1f);
  float tail = __fmul_rn(__fmul_rn(p, f), f2);
  tail = madd(e, -2.12194440e-4f, tail);
  tail = __fsub_rn(tail, __fmul_rn(0.5f, f2));
  return madd(e, 0.693359375f, __fadd_rn(f, tail));
}

__device__ __forceinline__ float normal_of(u32 bits) {
  float t = __fmul_rn(__fadd_rn((float)(int)(bits & 0x7FFFFFFFu), 0.5f), 0x1p-32f);
  float q = __fsub_rn(0.5f, t), z;
  if (q <= 0.425f) {
    float c = __fsub_rn(0.180625f, __fmul_rn(q, q));
    float above = madd(madd(madd(59.109374720f, c, 159.29113202f), c, 50.434271938f), c, 3.3871327179f);
    float below = madd(madd(madd(67.187563600f, c, 78.757757664f), c, 17.895169469f), c, 1.0f);
    z = __fdiv_rn(__fmul_rn(q, above), below);
  } else {
    float near = __fsub_rn(__fsqrt_rn(-pinned_log(t)), 1.6f);
    float above = madd(madd(madd(0.17023821103f, near, 1.3067284816f), near, 2.7568153900f), near, 1.4234372777f);
    float below = madd(madd(0.12021132975f, near, 0.73700164250f), near, 1.0f);
    z = __fdiv_rn(above, below);
  }
  return (bits & 0x80000000u) != 0 ? -z : z;
}

// Dropout of single numbers: S is float, or double for doubles. The comparison is made in f32, as every backend does.
template <class S>
struct Dropout {
  float rate;
  S keep;

  __device__ __forceinline__ Dropout(float rate_, double kept) : rate(rate_), keep((S)kept) {}
  __device__ __forceinline__ S operator()(S x, u32 bits) const { return uniform_of(bits) >= rate ? x / keep : (S)0; }
};
// Divisions by one number: its reciprocal and two fused operations give what a division would (Markstein), where
// nothing overflows or is subnormal on the way; zeros, which are frequent, need neither.
template <>
struct Dropout<float> {
  float rate, keep, inverse;

  __device__ __forceinline__ Dropout(float rate_, double kept)
      : rate(rate_), keep((float)kept), inverse(__frcp_rn((float)kept)) {}
  __device__ __forceinline__ float operator()(float x, u32 bits) const {
    if (uniform_of(bits) < rate) return 0.0f;
    float q = __fmul_rn(x, inverse);
    float better = __fmaf_rn(__fmaf_rn(-q, keep, x), inverse, q), size = fabsf(q);
    if (size > 0x1p-100f && size < 0x1p126f) return better;
    return x == 0.0f ? x : __fdiv_rn(x, keep);
  }
};

// What a kernel is told of a dropout.
struct Drop {
  const i64 *seed, *counter;
  u64 stream;  // mixed
  double kept;
  float rate;
};

// Elements `first` to `first` + N of a tensor. Their bits are drawn as whole blocks of four where N is such.
template <int N, class S>
__device__ __forceinline__ void drop_some(S* values, i64 first, const Dropout<S>& dropout, const RandomKey& key) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int four = 0; four < N; four += 4) {
      const FourWords words = philox((u64)(first + four) / 4, key);
#pragma unroll
      for (int i = 0; i < 4; ++i) values[four + i] = dropout(values[four + i], words.at[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const FourWords words = philox((u64)(first + i) / 4, key);
      const bool odd = ((first + i) & 1) != 0, upper = ((first + i) & 2) != 0;
      const u32 low = odd ? words.at[1] : words.at[0], high = odd ? words.at[3] : words.at[2];
      values[i] = dropout(values[i], upper ? high : low);
    }
  }
}
