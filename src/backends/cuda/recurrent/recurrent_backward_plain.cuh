// What the gates' gradients of this block's units give to the states before the step, by ordinary arithmetic: d·Wᵀ.
// LANES neighbours have OUTPUTS states; each sums over the columns j = lane, lane + LANES, … for all sequences, and
// then they add up.
#pragma once

#include "recurrent/recurrent.cuh"

#define DEPTH ((GATES * UNITS + LANES - 1) / LANES)
#define ENTRIES (DEPTH * LANES)
#define GRADIENTS (ENTRIES * ROWS)
#define ALL (OUTPUTS * ROWS)
#define GIVEN (ALL > LANES ? ALL / LANES : 1)
#define PARTS 1
#define SHARED_WEIGHTS ((DEPTH - KEPT_DEPTH) * OUTPUTS * THREADS)
typedef REAL OPERAND;

__device__ __forceinline__ OPERAND operand(REAL x) { return x; }
__device__ __forceinline__ int gradient_at(int column, int row) { return entry_at<ENTRIES>(column, row); }

struct Product {
  Weights<DEPTH, KEPT_DEPTH, OUTPUTS> w;

  __device__ __forceinline__ int lane() const { return threadIdx.x % LANES; }
  __device__ __forceinline__ int first() const { return (int)threadIdx.x / LANES * OUTPUTS; }
  // Of sum p: which of all OUTPUTS · ROWS it is.
  __device__ __forceinline__ int which(int p) const { return ALL >= LANES ? lane() * GIVEN + p : lane() * ALL / LANES; }
  __device__ __forceinline__ int state(int p) const { return first() + which(p) / ROWS; }
  __device__ __forceinline__ int row(int p) const { return which(p) % ROWS; }
  __device__ __forceinline__ int part() const { return 0; }
  __device__ __forceinline__ bool gives(int p) const {
    return state(p) < WIDTH && (ALL >= LANES || lane() * ALL % LANES == 0);
  }

  __device__ __forceinline__ void load(const STORE* hidden, int first_unit, REAL* shared) {
    w.others = shared;
#pragma unroll
    for (int i = 0; i < DEPTH; ++i) {
      const int j = i * LANES + lane(), unit = first_unit + j % UNITS;
      const bool there = j < GATES * UNITS && unit < WIDTH;
#pragma unroll
      for (int o = 0; o < OUTPUTS; ++o) {
        const int k = first() + o;
        w.set(i, o, there && k < WIDTH ? widen<REAL>(hidden[(i64)k * COLUMNS + j / UNITS * WIDTH + unit]) : (REAL)0);
      }
    }
  }
  __device__ __forceinline__ void multiply(const OPERAND* gradients, REAL (&sum)[GIVEN]) const {
    REAL x[ALL];
#pragma unroll
    for (int i = 0; i < ALL; ++i) x[i] = 0;
#pragma unroll
    for (int i = 0; i < DEPTH; ++i) {
      REAL weights[OUTPUTS];
      w.get(i, weights);
#pragma unroll
      for (int row = 0; row < ROWS; row += ROW_VECTOR) {
        REAL d[ROW_VECTOR];
        load_neighbours<ROW_VECTOR>(gradients + gradient_at(i * LANES + lane(), row), d);
#pragma unroll
        for (int r = 0; r < ROW_VECTOR; ++r)
#pragma unroll
          for (int o = 0; o < OUTPUTS; ++o) x[o * ROWS + row + r] += weights[o] * d[r];
      }
    }
    sum_over_lanes<ALL, 1, LANES>(x, lane());
#pragma unroll
    for (int p = 0; p < GIVEN; ++p) sum[p] = x[p];
  }
};
