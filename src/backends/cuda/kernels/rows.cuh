// A row of a matrix for each team of threads. Its elements stay in registers, or, where they are too many, are read
// again for each pass.
//   T          type of the elements
//   TEAM       threads of a team: a part of a warp, a warp, or the block
//   BLOCK      threads of a block
//   VEC        elements that a thread reads at once, neighbours
//   ITEMS      how often; 0: as often as it takes, and nothing is kept
#pragma once

#include "kernels/prelude.cuh"

#include "generated.cuh"

typedef Wide<T>::type W;

constexpr int kTeams = BLOCK / TEAM;  // of a block
constexpr bool kKept = ITEMS > 0;
constexpr int kItems = kKept ? ITEMS : 1;

__device__ __forceinline__ W infinity() { return (W)__int_as_float(0x7f800000); }
__device__ __forceinline__ W not_a_number() { return (W)__int_as_float(0x7fffffff); }
// As exact as T can show.
__device__ __forceinline__ W exponential(W x) { return sizeof(T) == 2 ? (W)__expf((float)x) : exp(x); }

__device__ __forceinline__ int team_number() { return (int)threadIdx.x / TEAM; }
__device__ __forceinline__ int team_lane() { return (int)threadIdx.x % TEAM; }

template <class E>
struct alignas(VEC * sizeof(E) < 16 ? VEC * sizeof(E) : 16) Pack {
  E of[VEC];
};
template <class E>
__device__ __forceinline__ void fill_pack(Pack<E>& pack, const W (&from)[VEC]) {
#pragma unroll
  for (int v = 0; v < VEC; ++v) pack.of[v] = narrow<E>(from[v]);
}
// Two at a time: one instruction.
#if VEC > 1
__device__ __forceinline__ void fill_pack(Pack<bf16>& pack, const W (&from)[VEC]) {
#pragma unroll
  for (int v = 0; v < VEC; v += 2) {
    const u32 pair = bf16_pair((float)from[v], (float)from[v + 1]);
    pack.of[v].bits = (u16)pair;
    pack.of[v + 1].bits = (u16)(pair >> 16);
  }
}
__device__ __forceinline__ void fill_pack(Pack<f16>& pack, const W (&from)[VEC]) {
#pragma unroll
  for (int v = 0; v < VEC; v += 2) {
    const u32 pair = f16_pair((float)from[v], (float)from[v + 1]);
    pack.of[v].bits = (u16)pair;
    pack.of[v + 1].bits = (u16)(pair >> 16);
  }
}
#endif
// `aligned`: pointers are such that a whole pack can be read at once.
template <class E>
__device__ __forceinline__ void load_pack(const E* from, bool aligned, W (&to)[VEC]) {
  Pack<E> pack;
  if (aligned) {
    pack = *(const Pack<E>*)from;
  } else {
#pragma unroll
    for (int v = 0; v < VEC; ++v) pack.of[v] = from[v];
  }
#pragma unroll
  for (int v = 0; v < VEC; ++v) to[v] = widen<W>(pack.of[v]);
}
template <class E>
__device__ __forceinline__ void store_pack(E* to, bool aligned, const W (&from)[VEC]) {
  Pack<E> pack;
  fill_pack(pack, from);
  if (aligned) {
    *(Pack<E>*)to = pack;
  } else {
#pragma unroll
    for (int v = 0; v < VEC; ++v) to[v] = pack.of[v];
  }
}

// f(item, first column) for each pack of this thread. What is kept is loaded by a pass of its own: all of it is on its
// way before the first is used. A team without a row has 0 columns and takes part in the shuffles of its warp.
template <class F>
__device__ __forceinline__ void each_pack(i64 columns, F f) {
#if ITEMS > 0
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int column = (i * TEAM + team_lane()) * VEC;
    if (column < columns) f(i, column);
  }
#else
  for (i64 column = team_lane() * VEC; column < columns; column += TEAM * VEC) f(0, column);
#endif
}

// `shared` holds 32 elements; another part of it for each call between two barriers.
__device__ __forceinline__ W team_sum(W x, W* shared) {
#if TEAM > 32
  return block_sum(x, shared);
#else
#pragma unroll
  for (int d = TEAM / 2; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
#endif
}
// NaN may be lost: it shows in the sum of exponentials.
__device__ __forceinline__ W team_max(W x, W* shared) {
#if TEAM > 32
  return block_max(x, shared);
#else
#pragma unroll
  for (int d = TEAM / 2; d > 0; d >>= 1) x = fmax(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
#endif
}
// What the team read before, it read before anything is written after.
__device__ __forceinline__ void team_barrier() {
#if TEAM > 32
  __syncthreads();
#else
  __syncwarp();
#endif
}
