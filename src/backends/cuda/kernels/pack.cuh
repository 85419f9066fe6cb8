// Some elements of a type side by side, moved in one access where their address allows it.
#pragma once

#include "kernels/prelude.cuh"

template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T at[N];
};

// The first `left` of N elements; with `wide`, whole packs are at addresses that suit them.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from, i64 left, bool wide) {
  if (wide && left >= N) return *(const Pack<T, N>*)from;
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < left) pack.at[i] = from[i];
  return pack;
}
template <int N, class T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack, i64 left, bool wide) {
  if (wide && left >= N) {
    *(Pack<T, N>*)to = pack;
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < left) to[i] = pack.at[i];
}
