// Where the heads of attention lie.
//   T          type of the operands; statistics are W, float or double
//   AXES       axes that heads are numbered by
//   DEPTH, WIDTH  columns of queries and keys, of values and results
//   CAUSAL     query i sees keys up to i + keys - queries
#pragma once

#include "kernels/prelude.cuh"

#include "generated.cuh"

typedef Wide<T>::type W;

struct Operand {
  T* data;
  i64 heads[AXES];  // distances along the axes of heads, in elements
  i64 row, column;  // from one position in time to the next, and within it
  int aligned;      // columns are neighbours, and pieces of 16 bytes lie at multiples of 16
};
struct Problem {
  i64 extents[AXES];  // of the axes of heads
  i64 heads, queries, keys;
  double scale;
};

__device__ __forceinline__ W infinity() { return (W)__int_as_float(0x7f800000); }

__device__ __forceinline__ T* head_of(const Operand& operand, const Problem& problem, i64 head) {
  i64 offset = 0;
#pragma unroll
  for (int axis = AXES - 1; axis >= 0; --axis) {
    offset += head % problem.extents[axis] * operand.heads[axis];
    head /= problem.extents[axis];
  }
  return operand.data + offset;
}

__device__ __forceinline__ i64 least(i64 a, i64 b) { return a < b ? a : b; }
__device__ __forceinline__ i64 most(i64 a, i64 b) { return a > b ? a : b; }
__device__ __forceinline__ bool sees(i64 query, i64 key, const Problem& p) {
  return key < p.keys && (!CAUSAL || key <= query + p.keys - p.queries);
}
// One past the last key that queries up to this one see.
__device__ __forceinline__ i64 keys_seen(i64 query, const Problem& p) {
  return CAUSAL ? most(least(p.keys, query + 1 + p.keys - p.queries), 0) : p.keys;
}
// The first query that sees this key.
__device__ __forceinline__ i64 first_query(i64 key, const Problem& p) {
  return CAUSAL ? most(key - (p.keys - p.queries), 0) : 0;
}
