// The hidden share of the gates by ordinary arithmetic, in full precision: h·W for the units of this block. LANES
// neighbours have the gates of one unit; each sums over the states k = lane, lane + LANES, … for all sequences, and
// then they add up, so that each ends with whole sums of its own sequences.
#pragma once

#include "recurrent/recurrent.cuh"

#define DEPTH ((WIDTH + LANES - 1) / LANES)
#define ENTRIES (DEPTH * LANES)
#define STATES (ENTRIES * ROWS)
#define OWN (ROWS > LANES ? ROWS / LANES : 1)
#define SHARED_WEIGHTS ((DEPTH - KEPT_DEPTH) * GATES * THREADS)
typedef REAL OPERAND;

__device__ __forceinline__ OPERAND operand(REAL x) { return x; }
__device__ __forceinline__ int state_at(int k, int row) { return entry_at<ENTRIES>(k, row); }

struct Product {
  Weights<DEPTH, KEPT_DEPTH, GATES> w;

  __device__ __forceinline__ int lane() const { return threadIdx.x % LANES; }
  __device__ __forceinline__ int unit() const { return threadIdx.x / LANES; }
  __device__ __forceinline__ int row(int p) const { return ROWS >= LANES ? lane() * OWN + p : lane() * ROWS / LANES; }
  __device__ __forceinline__ bool leads() const { return ROWS >= LANES || lane() * ROWS % LANES == 0; }

  __device__ __forceinline__ void load(const STORE* hidden, int first_unit, REAL* shared) {
    w.others = shared;
    const int column = first_unit + unit();
    const bool there = unit() < UNITS && column < WIDTH;
#pragma unroll
    for (int i = 0; i < DEPTH; ++i) {
      const int k = i * LANES + lane();
#pragma unroll
      for (int g = 0; g < GATES; ++g)
        w.set(i, g, there && k < WIDTH ? widen<REAL>(hidden[(i64)k * COLUMNS + g * WIDTH + column]) : (REAL)0);
    }
  }
  __device__ __forceinline__ void multiply(const OPERAND* states, REAL (&sum)[OWN][GATES]) const {
    REAL x[ROWS * GATES];
#pragma unroll
    for (int i = 0; i < ROWS * GATES; ++i) x[i] = 0;
#pragma unroll
    for (int i = 0; i < DEPTH; ++i) {
      REAL weights[GATES];
      w.get(i, weights);
#pragma unroll
      for (int row = 0; row < ROWS; row += ROW_VECTOR) {
        REAL h[ROW_VECTOR];
        load_neighbours<ROW_VECTOR>(states + state_at(i * LANES + lane(), row), h);
#pragma unroll
        for (int r = 0; r < ROW_VECTOR; ++r)
#pragma unroll
          for (int g = 0; g < GATES; ++g) x[(row + r) * GATES + g] += weights[g] * h[r];
      }
    }
    sum_over_lanes<ROWS * GATES, GATES, LANES>(x, lane());
#pragma unroll
    for (int p = 0; p < OWN; ++p)
#pragma unroll
      for (int g = 0; g < GATES; ++g) sum[p][g] = x[p * GATES + g];
  }
};
