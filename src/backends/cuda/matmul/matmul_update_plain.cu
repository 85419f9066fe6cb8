// The gradient of a weight, g = aᵀ·b, and what an optimiser does with it, tile by tile: the gradient is never stored.
//   a: [K,M]  b: [K,N], rows a_row and b_row apart    weights and moments: [M,N], contiguous
//   MODE     0: f32; on tensor cores 1: TF32, 2: bf16, 3: f16. IN: type of a and b
//   SIDE     of a tile, 64 or 128; each warp has 32 × 32 of it
//   VEC      4: rows begin on 16 bytes, and have a multiple of 4 elements; 1: neither is known
//   TENSORS, SCALARS, RESULTS and update(g, x, s, y) stand before: y = formula of the gradient, of the tensors'
//   elements x, and of the scalars s
// Every element is read and written by one thread, so a result may lie where a tensor lies.
#include "kernels/tensor_core.cuh"

#include "generated.cuh"

#define THREADS (SIDE / 32 * SIDE)
#define DEPTH 32          // words along k of a chunk: a word is one number, or two halves
#define PITCH (SIDE + 8)  // lanes of a warp read words of different banks
#define PAIR (MODE >= 2 ? 2 : 1)

// As matmul_update_own.cpp fills it.
struct UpdateOperands {
  const float* tensors[4];
  const float* scalars[10];
  float* results[4];
};

__device__ __forceinline__ u32 word(float x) {
#if MODE == 1 && !defined(VARVE_EMULATED)
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
#elif MODE == 1
  return __float_as_uint(emu_tf32(x));
#else
  return __float_as_uint(x);
#endif
}

// Four neighbours of one row; 0 outside.
template <class T>
__device__ __forceinline__ void read4(const T* x, i64 columns, i64 column, bool inside, T* to) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = narrow<T>(0.0f);
  if (!inside) return;
#if VEC == 4
  struct __align__(4 * sizeof(T)) Four {
    T items[4];
  };
  if (column < columns) {
    const Four four = *(const Four*)(x + column);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = four.items[i];
  }
#else
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (column + i < columns) to[i] = x[column + i];
#endif
}

__device__ __forceinline__ void write4(float* x, i64 columns, i64 column, const float* from) {
#if VEC == 4
  if (column < columns) *(float4*)(x + column) = make_float4(from[0], from[1], from[2], from[3]);
#else
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (column + i < columns) x[column + i] = from[i];
#endif
}

// DEPTH words along k of SIDE columns.
__device__ __forceinline__ void load_chunk(const IN* x, i64 row, i64 columns, i64 terms, i64 first, i64 k0,
                                           u32 (*chunk)[PITCH]) {
#pragma unroll
  for (int part = 0; part < DEPTH * SIDE / 4 / THREADS; ++part) {
    const int at = part * THREADS + (int)threadIdx.x, depth = at / (SIDE / 4), c = at % (SIDE / 4) * 4;
    const i64 k = k0 + depth * PAIR;
    IN low[4];
    read4(x + k * row, columns, first + c, k < terms, low);
    uint4 words;
#if MODE >= 2
    IN high[4];
    read4(x + (k + 1) * row, columns, first + c, k + 1 < terms, high);
    words.x = low[0].bits | (u32)high[0].bits << 16;
    words.y = low[1].bits | (u32)high[1].bits << 16;
    words.z = low[2].bits | (u32)high[2].bits << 16;
    words.w = low[3].bits | (u32)high[3].bits << 16;
#else
    words.x = word(low[0]);
    words.y = word(low[1]);
    words.z = word(low[2]);
    words.w = word(low[3]);
#endif
    *(uint4*)&chunk[depth][c] = words;
  }
}

#if MODE == 1
#define MULTIPLY mma_tf32
#elif MODE == 2
#define MULTIPLY mma_bf16
#else
#define MULTIPLY mma_f16
#endif

// A lane's part of its warp's 32 × 32, as tensor cores deal it: lane = 4 · group + member has rows group + 8 · r, and
// of each 16 columns the four from 4 · member on, so that they are one access. Instruction `half` of two computes
// columns 0 and 1 of these four: column n of its eight is column 4 · (n / 2) + 2 · half + n % 2 of the 16.
//   sums[m][2 · p + half][2 · u + e]: row 16 · m + 8 · u + group, column 16 · p + 4 · member + 2 · half + e
__device__ __forceinline__ void multiply(const u32 (*a)[PITCH], const u32 (*b)[PITCH], int row, int column,
                                         float (&sums)[2][4][4]) {
  const int group = (int)threadIdx.x % 32 / 4, member = (int)threadIdx.x % 4;
#if MODE == 0
#pragma unroll 8
  for (int k = 0; k < DEPTH; ++k) {
    float x[2][2];
    float4 y[2];
    for (int m = 0; m < 2; ++m)
      for (int u = 0; u < 2; ++u) x[m][u] = __uint_as_float(a[k][row + 16 * m + 8 * u + group]);
    for (int p = 0; p < 2; ++p) y[p] = *(const float4*)&b[k][column + 16 * p + 4 * member];
    for (int m = 0; m < 2; ++m)
      for (int p = 0; p < 2; ++p)
        for (int u = 0; u < 2; ++u) {
          sums[m][2 * p][2 * u] += x[m][u] * y[p].x;
          sums[m][2 * p][2 * u + 1] += x[m][u] * y[p].y;
          sums[m][2 * p + 1][2 * u] += x[m][u] * y[p].z;
          sums[m][2 * p + 1][2 * u + 1] += x[m][u] * y[p].w;
        }
  }
#else
#pragma unroll
  for (int k = 0; k < DEPTH; k += 8) {
    u32 x[2][4];
    for (int m = 0; m < 2; ++m)
      for (int i = 0; i < 4; ++i) x[m][i] = a[k + member + i / 2 * 4][row + 16 * m + i % 2 * 8 + group];
    for (int n = 0; n < 4; ++n) {
      const int at = column + n / 2 * 16 + group / 2 * 4 + n % 2 * 2 + group % 2;
      const u32 y[2] = {b[k + member][at], b[k + member + 4][at]};
      for (int m = 0; m < 2; ++m) MULTIPLY(sums[m][n], x[m], y[0], y[1]);
    }
  }
#endif
}

// The tile of weights is in flight while the gradient is computed: a line of 128 bytes for each thread.
__device__ __forceinline__ void prefetch(const float* x, i64 rows, i64 columns, i64 row, i64 column) {
#ifndef VARVE_EMULATED
  row += (int)threadIdx.x / (SIDE / 32);
  column += (int)threadIdx.x % (SIDE / 32) * 32;
  if (row < rows && column < columns) asm volatile("prefetch.global.L2 [%0];" ::"l"(x + row * columns + column));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, SIDE == 64 ? 4 : 2)
    matmul_update(const IN* a, const IN* b, i64 m, i64 n, i64 k, i64 a_row, i64 b_row, UpdateOperands o) {
  begin_kernel();
  __shared__ __align__(16) u32 left[DEPTH][PITCH], right[DEPTH][PITCH];
  const i64 across = (n + SIDE - 1) / SIDE;
  const i64 tile_row = (i64)blockIdx.x / across * SIDE, tile_column = (i64)blockIdx.x % across * SIDE;
#pragma unroll
  for (int t = 0; t < TENSORS; ++t) prefetch(o.tensors[t], m, n, tile_row, tile_column);

  const int warp = (int)threadIdx.x / 32;
  const int row = warp / (SIDE / 32) * 32, column = warp % (SIDE / 32) * 32;
  float sums[2][4][4] = {};
  for (i64 k0 = 0; k0 < k; k0 += DEPTH * PAIR) {
    load_chunk(a, a_row, m, k, tile_row, k0, left);
    load_chunk(b, b_row, n, k, tile_column, k0, right);
    __syncthreads();
    multiply(left, right, row, column, sums);
    __syncthreads();
  }

  float s[SCALARS + 1];
#pragma unroll
  for (int i = 0; i < SCALARS; ++i) s[i] = *o.scalars[i];
  const int group = (int)threadIdx.x % 32 / 4, member = (int)threadIdx.x % 4;
#pragma unroll
  for (int piece = 0; piece < 8; ++piece) {
    const int mm = piece / 4, u = piece / 2 % 2, p = piece % 2;
    const i64 r = tile_row + row + 16 * mm + 8 * u + group, c = tile_column + column + 16 * p + 4 * member;
    if (r >= m) continue;
    float x[TENSORS][4], y[RESULTS][4];
#pragma unroll
    for (int t = 0; t < TENSORS; ++t) read4(o.tensors[t] + r * n, n, c, true, x[t]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float mine[TENSORS], next[RESULTS];
      for (int t = 0; t < TENSORS; ++t) mine[t] = x[t][i];
      update(sums[mm][2 * p + i / 2][2 * u + i % 2], mine, s, next);
      for (int t = 0; t < RESULTS; ++t) y[t][i] = next[t];
    }
#pragma unroll
    for (int t = 0; t < RESULTS; ++t) write4(o.results[t] + r * n, n, c, y[t]);
  }
}
