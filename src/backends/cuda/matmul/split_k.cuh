// Four neighbours of several parts of a sum, which are of type PART.
#pragma once

#include "kernels/prelude.cuh"

#include "generated.cuh"

template <class P>
struct __align__(4 * sizeof(P)) Four {
  P of[4];
};

// Adds up to kAtOnce parts, `load(number)` of them, in order; all are in flight before the first is used.
constexpr int kAtOnce = 8;
template <class Load>
__device__ __forceinline__ void add_some(float (&sum)[4], int count, Load load) {
  Four<PART> parts[kAtOnce];
#pragma unroll
  for (int p = 0; p < kAtOnce; ++p)
    if (p < count) parts[p] = load(p);
#pragma unroll
  for (int p = 0; p < kAtOnce; ++p)
    if (p < count)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += widen<float>(parts[p].of[i]);
}
