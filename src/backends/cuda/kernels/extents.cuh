// Divisors that are known at launch. For indices below 2^31 a division is a multiplication and a shift.
#pragma once

#include "kernels/prelude.cuh"

struct Extent32 {
  u32 size, multiplier, shift, unused;
  __device__ __forceinline__ u32 quotient(u32 x) const { return (__umulhi(x, multiplier) + x) >> shift; }
};
struct Extent64 {
  u64 size, unused;
  __device__ __forceinline__ u64 quotient(u64 x) const { return x / size; }
};
