// The hidden share of the gates by tensor cores. A warp has eight units: a strip of 16 rows is two of their gates, so
// that a lane ends with all gates of one unit. With SPLIT = 2 two warps have halves of the sum; each then takes the
// other's for half of the sequences.
#pragma once

#include "recurrent/recurrent_tensor_core.cuh"

#define STRIPS ((GATES + 1) / 2)
#define UNIT_TILES ((UNITS + 7) / 8)
#define ALL_TILES ((WIDTH + TILE - 1) / TILE)
#define TILES (SPLIT == 1 ? ALL_TILES : (ALL_TILES + 2 * SPLIT - 1) / (2 * SPLIT) * 2)  // of one warp
#define PITCH pitch_of(TILES* SPLIT)
#define STATES (COLUMNS_USED * PITCH)
#define LANE_ROWS (ROWS == 4 ? 1 : ROWS / 4)  // whose sums a lane has at first
#define OWN (SPLIT == 2 && ROWS >= 8 ? LANE_ROWS / 2 : LANE_ROWS)
#define GIVEN_AWAY (LANE_ROWS == 1 ? 1 : LANE_ROWS / 2)
#define SHARED_WEIGHTS ((TILES * STRIPS - KEPT_DEPTH) * 4 * THREADS + (SPLIT - 1) * GIVEN_AWAY * GATES * THREADS)

__device__ __forceinline__ int state_at(int k, int row) { return term_at<PITCH>(k, row); }

struct Product {
  Fragments<TILES * STRIPS, KEPT_DEPTH> w;
  float* exchanged;

  __device__ __forceinline__ int warp() const { return (int)threadIdx.x / 32; }
  __device__ __forceinline__ int part() const { return warp() / UNIT_TILES; }
  __device__ __forceinline__ int unit() const { return warp() % UNIT_TILES * 8 + FAMILY; }
  // Sums of a lane are of columns 2m, 2m + 1, 8 + 2m, …; a part of two has every second.
  __device__ __forceinline__ int row(int p) const {
    if (ROWS == 4) return MEMBER;
    return SPLIT == 1 ? p / 2 * 8 + 2 * MEMBER + p % 2 : p * 8 + 2 * MEMBER + part();
  }
  __device__ __forceinline__ bool leads() const { return part() < (ROWS == 4 ? 1 : SPLIT); }

  __device__ __forceinline__ void load(const STORE* hidden, int first_unit, REAL* shared) {
    const int first_column = first_unit + warp() % UNIT_TILES * 8, left = UNITS - warp() % UNIT_TILES * 8;
    exchanged = shared + (TILES * STRIPS - KEPT_DEPTH) * 4 * THREADS;
    w.load((uint4*)shared, [&](int i, int row, int term) {
      const int k = (part() * TILES + i / STRIPS) * TILE + term, gate = i % STRIPS * 2 + row / 8;
      const int column = first_column + row % 8;
      const bool there = k < WIDTH && gate < GATES && row % 8 < left && column < WIDTH && part() < SPLIT;
      return there ? widen<float>(hidden[(i64)k * COLUMNS + gate * WIDTH + column]) : 0.f;
    });
  }
  __device__ __forceinline__ void multiply(const OPERAND* states, REAL (&sum)[OWN][GATES]) const {
    float x[COLUMNS_USED / 8][STRIPS][4];
    multiply_tiles<TILES, STRIPS>(w, states + part() * TILES * TILE, PITCH, x);
    const auto value = [&](int lane_row, int gate) {
      return ROWS == 4 ? x[0][gate / 2][gate % 2 * 2] : x[lane_row / 2][gate / 2][gate % 2 * 2 + lane_row % 2];
    };
#if SPLIT == 1
#pragma unroll
    for (int p = 0; p < OWN; ++p)
#pragma unroll
      for (int g = 0; g < GATES; ++g) sum[p][g] = value(p, g);
#else
    const int other = ((int)threadIdx.x + UNIT_TILES * 32) % THREADS;  // the lane of the other part
    const bool second = part() == 1;
#pragma unroll
    for (int p = 0; p < GIVEN_AWAY; ++p)
#pragma unroll
      for (int g = 0; g < GATES; ++g)
        exchanged[(p * GATES + g) * THREADS + threadIdx.x] = ROWS == 4 ? value(0, g)
                                                             : second  ? value(2 * p, g)
                                                                       : value(2 * p + 1, g);
    __syncthreads();
#pragma unroll
    for (int p = 0; p < OWN; ++p)
#pragma unroll
      for (int g = 0; g < GATES; ++g) {
        const float mine = ROWS == 4 ? value(0, g) : second ? value(2 * p + 1, g) : value(2 * p, g);
        const float given = exchanged[(p * GATES + g) * THREADS + other];
        sum[p][g] = second ? given + mine : mine + given;
      }
#endif
  }
};
