// What the gates' gradients of this block's units give to the states before the step, by tensor cores. A warp has
// STRIPS strips of 16 states; with SPLIT > 1 it has a part of the sum, and whoever reads the sums adds the parts.
#pragma once

#include "recurrent/recurrent_tensor_core.cuh"

#define ALL_STRIPS ((WIDTH + 15) / 16)
#define STRIP_GROUPS ((ALL_STRIPS + STRIPS - 1) / STRIPS)
#define ALL_TILES ((GATES * UNITS + TILE - 1) / TILE)
#define TILES (SPLIT == 1 ? ALL_TILES : (ALL_TILES + 2 * SPLIT - 1) / (2 * SPLIT) * 2)  // of one warp
#define PITCH pitch_of(TILES* SPLIT)
#define GRADIENTS (COLUMNS_USED * PITCH)
#define LANE_SUMS (ROWS == 4 ? 2 : ROWS / 2)  // of one strip
#define GIVEN (LANE_SUMS * STRIPS)
#define PARTS SPLIT
#define SHARED_WEIGHTS ((TILES * STRIPS - KEPT_DEPTH) * 4 * THREADS)

__device__ __forceinline__ int gradient_at(int column, int row) { return term_at<PITCH>(column, row); }

struct Product {
  Fragments<TILES * STRIPS, KEPT_DEPTH> w;

  __device__ __forceinline__ int warp() const { return (int)threadIdx.x / 32; }
  __device__ __forceinline__ int part() const { return warp() / STRIP_GROUPS; }
  __device__ __forceinline__ int first() const { return warp() % STRIP_GROUPS * STRIPS * 16; }
  // Sum p: strip by strip; then eight columns at a time; then rows FAMILY and FAMILY + 8, each of two columns, or of
  // the one that is used.
  __device__ __forceinline__ int state(int p) const {
    const int i = p % LANE_SUMS, upper = ROWS == 4 ? i : i % 4 / 2;
    return first() + p / LANE_SUMS * 16 + upper * 8 + FAMILY;
  }
  __device__ __forceinline__ int row(int p) const {
    const int i = p % LANE_SUMS;
    return ROWS == 4 ? MEMBER : i / 4 * 8 + 2 * MEMBER + i % 2;
  }
  __device__ __forceinline__ bool gives(int p) const { return part() < SPLIT && state(p) < WIDTH; }

  __device__ __forceinline__ void load(const STORE* hidden, int first_unit, REAL* shared) {
    w.load((uint4*)shared, [&](int i, int row, int term) {
      const int k = first() + i % STRIPS * 16 + row, j = (part() * TILES + i / STRIPS) * TILE + term;
      const int unit = first_unit + j % UNITS;
      const bool there = k < WIDTH && j < GATES * UNITS && unit < WIDTH && part() < SPLIT;
      return there ? widen<float>(hidden[(i64)k * COLUMNS + j / UNITS * WIDTH + unit]) : 0.f;
    });
  }
  __device__ __forceinline__ void multiply(const OPERAND* gradients, REAL (&sum)[GIVEN]) const {
    float x[COLUMNS_USED / 8][STRIPS][4];
    multiply_tiles<TILES, STRIPS>(w, gradients + min(part(), SPLIT - 1) * TILES * TILE, PITCH, x);
#pragma unroll
    for (int p = 0; p < GIVEN; ++p) {
      const int strip = p / LANE_SUMS, i = p % LANE_SUMS;
      sum[p] = ROWS == 4 ? x[0][strip][i * 2] : x[i / 4][strip][i % 4];
    }
  }
};
