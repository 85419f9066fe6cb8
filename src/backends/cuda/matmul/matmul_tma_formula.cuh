// What kernels that update weights by tiles share: their operands, and the formula. Products are in TF32, which holds
// every bf16 and f16.
//   TENSORS, SCALARS, RESULTS and update(g, x, s, y) stand before: y = formula of the gradient, of the tensors'
//   elements x, and of the scalars s. RESULTS ≤ TENSORS
#pragma once

#include "kernels/tma.cuh"

#include "generated.cuh"

// As matmul_stream.cpp fills it.
struct TmaOperands {
  TensorMap tensors[4], results[4], factor;
  const float* scalars[10];
};

// Two neighbours, in tiles of so many bytes: a result lies where the tensor of the same number lay.
__device__ __forceinline__ void update_two(unsigned char* at, int tile, float g0, float g1, const float* s) {
  float2 x[TENSORS];
#pragma unroll
  for (int i = 0; i < TENSORS; ++i) x[i] = *(const float2*)(at + i * tile);
  float first[TENSORS], second[TENSORS], y0[RESULTS], y1[RESULTS];
#pragma unroll
  for (int i = 0; i < TENSORS; ++i) {
    first[i] = x[i].x;
    second[i] = x[i].y;
  }
  update(g0, first, s, y0);
  update(g1, second, s, y1);
#pragma unroll
  for (int i = 0; i < RESULTS; ++i) *(float2*)(at + i * tile) = make_float2(y0[i], y1[i]);
}
