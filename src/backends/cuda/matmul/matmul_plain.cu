// c[i] = a[i]·b[i] by blocks of 64 × 64, of any type and any strides; then, where asked for:
//   ADDS     c = alpha · a·b + beta · c0, with alpha and beta read from `scale` where SCALED
//   BIAS     a number is added to each column
//   RELU     what is negative becomes 0
// IN, OUT: element types. WIDE: what sums are kept in; unsigned for integers, whose sums wrap.
// Every sum is taken by one thread, in the order of k: the same bits at every run.
#include "kernels/prelude.cuh"

#include "generated.cuh"

// As matmul_own.cpp fills it. Distances in elements; the batch has `axes` axes, 4 at most.
struct MatmulShape {
  i64 m, n, k;
  i64 a_row, a_col, b_row, b_col, c_row, c_col;
  i64 axes;
  i64 size[4], a_batch[4], b_batch[4], c_batch[4];
};

#define BLOCK 64
#define DEPTH 16
#define THREADS 256
#define PITCH (BLOCK + 1)  // columns of a tile fall to different banks

// A part of a matrix into shared memory, as [DEPTH][BLOCK]. Neighbouring threads read along the axis that is nearer in
// memory. What is outside counts as 0.
__device__ __forceinline__ void load_tile(const IN* x, i64 along, i64 deep, i64 rows, i64 depth, i64 first, i64 k0,
                                          WIDE (*tile)[PITCH]) {
  const int thread = threadIdx.x;
  const bool deep_first = deep < along;
  for (int part = 0; part < BLOCK * DEPTH / THREADS; ++part) {
    const int at = part * THREADS + thread;
    const int k = deep_first ? at % DEPTH : at / BLOCK;
    const int i = deep_first ? at / DEPTH : at % BLOCK;
    const bool inside = first + i < rows && k0 + k < depth;
    tile[k][i] = inside ? widen<WIDE>(x[(first + i) * along + (k0 + k) * deep]) : (WIDE)0;
  }
}

__device__ __forceinline__ WIDE finished(WIDE sum, const OUT* bias, i64 column) {
#ifdef BIAS
  sum += widen<WIDE>(bias[column]);
#endif
#ifdef RELU
  sum = sum > (WIDE)0 || sum != sum ? sum : (WIDE)0;  // NaN stays
#endif
  return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul(const IN* a, const IN* b, const OUT* bias, const OUT* c0, const WIDE* scale, WIDE alpha, WIDE beta, OUT* c,
           MatmulShape s) {
  begin_kernel();
  __shared__ WIDE left[DEPTH][PITCH], right[DEPTH][PITCH];
  const i64 down = (s.m + BLOCK - 1) / BLOCK, across = (s.n + BLOCK - 1) / BLOCK;
  const i64 row = (i64)blockIdx.x / across % down * BLOCK, column = (i64)blockIdx.x % across * BLOCK;
  i64 index = (i64)blockIdx.x / across / down;
  i64 c_at = 0;
  for (int axis = (int)s.axes - 1; axis >= 0; --axis) {
    const i64 i = index % s.size[axis];
    index /= s.size[axis];
    a += i * s.a_batch[axis];
    b += i * s.b_batch[axis];
    c_at += i * s.c_batch[axis];
  }

  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  WIDE sums[4][4] = {};
  for (i64 k0 = 0; k0 < s.k; k0 += DEPTH) {
    load_tile(a, s.a_row, s.a_col, s.m, s.k, row, k0, left);
    load_tile(b, s.b_col, s.b_row, s.n, s.k, column, k0, right);
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < DEPTH; ++k) {
      WIDE x[4], y[4];
      for (int i = 0; i < 4; ++i) x[i] = left[k][ty + 16 * i];
      for (int j = 0; j < 4; ++j) y[j] = right[k][tx + 16 * j];
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sums[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }

#ifdef SCALED
  alpha = scale[0];
  beta = scale[1];
#endif
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const i64 r = row + ty + 16 * i, q = column + tx + 16 * j;
      if (r >= s.m || q >= s.n) continue;
      const i64 at = c_at + r * s.c_row + q * s.c_col;
      WIDE sum = sums[i][j];
#ifdef ADDS
      sum = alpha * sum + beta * widen<WIDE>(c0[at]);
#endif
      c[at] = narrow<OUT>(finished(sum, bias, q));
    }
}
