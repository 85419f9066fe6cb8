// What the recurrent kernels share. GROUP blocks together carry ROWS sequences through all their steps; each block
// keeps the weights of UNITS units in registers for as long as the kernel runs. The cell is CELL_LSTM, CELL_GRU or
// CELL_RNN; numbers are stored as STORE and computed as REAL; WIDTH is that of the state.
#pragma once

#include "kernels/prelude.cuh"

#include "generated.cuh"

#if defined(CELL_LSTM)
#define GATES 4
#define KEPT 4  // what the gradient wants to know of each unit: i, f, g, o
#elif defined(CELL_GRU)
#define GATES 3
#define KEPT 4  // r, z, n and the hidden share of n
#else
#define GATES 1
#define KEPT 0
#endif
#define COLUMNS (GATES * WIDTH)

// ---- what a thread brings of a step

// A thread's sums are halved from lane to lane until each has those that are its own: lane l has values
// [l · left, (l + 1) · left) of N in its first `left` places. With more lanes than pieces of at least LEAST, neighbours
// have the same.
template <int N, int LEAST, int LANE_COUNT>
__device__ __forceinline__ void sum_over_lanes(REAL (&x)[N], int lane) {
  int left = N;
#pragma unroll
  for (int apart = LANE_COUNT / 2; apart > 0; apart /= 2) {
    if (left / 2 >= LEAST) {
      left /= 2;
      const bool upper = lane & apart;
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        if (i >= left) break;
        const REAL given = upper ? x[i] : x[i + left];
        x[i] = (upper ? x[i + left] : x[i]) + __shfl_xor_sync(0xffffffffu, given, apart);
      }
    } else {
#pragma unroll
      for (int i = 0; i < LEAST; ++i) x[i] += __shfl_xor_sync(0xffffffffu, x[i], apart);
    }
  }
}

// COUNT neighbours in shared memory, as few loads as there can be.
template <int COUNT>
__device__ __forceinline__ void load_neighbours(const REAL* from, REAL (&to)[COUNT]) {
  constexpr int together = COUNT % 4 == 0 && sizeof(REAL) == 4 ? 4 : COUNT % 2 == 0 ? 2 : 1;
  struct __align__(together * sizeof(REAL)) Whole {
    REAL at[together];
  };
#pragma unroll
  for (int i = 0; i < COUNT; i += together) {
    const Whole whole = *(const Whole*)(from + i);
#pragma unroll
    for (int j = 0; j < together; ++j) to[i + j] = whole.at[j];
  }
}

// Weights of one thread: COUNT times WIDE, of which the first IN_REGISTERS stay in registers and the others in shared
// memory, those of one thread together.
template <int COUNT, int IN_REGISTERS, int WIDE>
struct Weights {
  REAL kept[IN_REGISTERS][WIDE];
  REAL* others;

  __device__ __forceinline__ void set(int i, int j, REAL x) {
    if (i < IN_REGISTERS)
      kept[i][j] = x;
    else
      others[((i - IN_REGISTERS) * THREADS + threadIdx.x) * WIDE + j] = x;
  }
  __device__ __forceinline__ void get(int i, REAL (&x)[WIDE]) const {
    if (i < IN_REGISTERS)
#pragma unroll
      for (int j = 0; j < WIDE; ++j) x[j] = kept[i][j];
    else
      load_neighbours<WIDE>(others + ((i - IN_REGISTERS) * THREADS + threadIdx.x) * WIDE, x);
  }
};

// Where row r of entry e stands: entries of ROWS numbers, in vectors of up to four so that lanes read side by side.
#define ROW_VECTOR (ROWS < 4 ? ROWS : 4)
template <int ENTRIES>
__device__ __forceinline__ constexpr int entry_at(int entry, int row) {
  return (row / ROW_VECTOR * ENTRIES + entry) * ROW_VECTOR + row % ROW_VECTOR;
}

// ---- from block to block

#if GROUP > 1
// Numbers travel through the cache that all multiprocessors share, each in one word of 8 bytes with the number of its
// exchange: whoever waits for it reads the word until that is there, and needs no barrier. Exchanges are numbered on
// from launch to launch, so that words of the launch before are never taken for those of this one. Two exchanges have
// room: nobody sends the one after next before all have sent the next, and with that have read the last.
__device__ __forceinline__ void send(u64* word, float value, u32 exchange) {
  const u64 both = (u64)exchange << 32 | __float_as_uint(value);
#ifdef VARVE_EMULATED
  __atomic_store_n(word, both, __ATOMIC_RELAXED);
#else
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(both) : "memory");
#endif
}
__device__ __forceinline__ u64 look(const u64* word) {
#ifdef VARVE_EMULATED
  return __ldcg(word);
#else
  u64 both;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(word) : "memory");
  return both;
#endif
}
// Waits for words[0], words[step], … of `count`, at most MOST of them at a time.
template <int MOST>
__device__ __forceinline__ void receive(const u64* words, int step, int count, u32 exchange, float (&values)[MOST]) {
  bool missing = true;
  while (missing) {
    u64 got[MOST];
#pragma unroll
    for (int i = 0; i < MOST; ++i) got[i] = look(words + min(i, count - 1) * step);
    missing = false;
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
      missing |= (u32)(got[i] >> 32) != exchange;
      values[i] = __uint_as_float((u32)got[i]);
    }
  }
}
#endif

// ---- cells

// What is divided by lies within [1, ∞]: the quick reciprocal is right there, to a unit in the last place.
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.f, 1.f + expf(-x)); }
__device__ __forceinline__ double sigmoid(double x) { return 1. / (1. + exp(-x)); }
__device__ __forceinline__ float tanh_of(float x) { return tanhf(x); }
__device__ __forceinline__ double tanh_of(double x) { return tanh(x); }

// How many steps a sequence has.
__device__ __forceinline__ int steps_of(const LENGTH* lengths, int row, int steps) {
  if (!lengths) return steps;
  const i64 length = widen<i64>(lengths[row]);
  return length < 0 ? 0 : length < steps ? (int)length : steps;
}
