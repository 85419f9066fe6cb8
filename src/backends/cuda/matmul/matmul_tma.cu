// y[M,N] = x[M,K]·w with few rows and large weights, which pass through shared memory once (kernels/tma.cuh).
//   M ≤ 64; w is f32    what follows (kernels/epilogue.cuh): where a block has whole sums
//   T  f32: products in TF32; bf16 or f16: w is rounded to that, ALONG is 0
//   Y  T, or f32 for parts
//   ALONG 0  w[K,N]: a block has UNITS · 32 columns of it, in tiles of 32 rows
//         1  w[N,K]: a block has 64 rows of it, in tiles of UNITS · 32 columns
//   EARLY 1  no earlier kernel of the step writes w: its first tiles need not wait for one
// Where several blocks share a stripe of w, y is parts[splits][M,N] that split_k_sum adds. Down the columns of w a
// block goes from its last tile to its first: an update has left the end of w in the cache.
#include "kernels/epilogue.cuh"
#include "kernels/tma.cuh"

#define WARPS (ALONG ? 4 : 8)                                  // that compute; one more brings the tiles
#define WEIGHTS (ALONG ? UNITS * 64 * 128 : UNITS * 32 * 128)  // bytes of a tile
#define INPUTS (ALONG ? UNITS * 64 * 128 : 64 * 32 * (int)sizeof(T))

__device__ __forceinline__ void store_four(float* y, float a, float b, float c, float d) {
  *(float4*)y = make_float4(a, b, c, d);
}
template <class H>
__device__ __forceinline__ void store_four(H* y, float a, float b, float c, float d) {
  *(uint2*)y = make_uint2(pair_of(a, b, H()), pair_of(c, d, H()));
}

// Columns of w are rows of the tensor cores' left operand: of its 32 columns a lane has four neighbours, two for each
// of two products.
__device__ __forceinline__ void multiply_down(float (&sums)[2][32], const unsigned char* weights, const void* inputs,
                                              int group, int member, float) {
  u32 left[4][2][4];
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const float4 four = *(const float4*)(weights + place(8 * k + 4 * v + member, 4 * group));
      left[k][0][2 * v] = tf32_round(four.x);
      left[k][0][2 * v + 1] = tf32_round(four.y);
      left[k][1][2 * v] = tf32_round(four.z);
      left[k][1][2 * v + 1] = tf32_round(four.w);
    }
  products_begin();
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int half = 0; half < 2; ++half) multiply(sums[half], left[k][half], matrix(inputs, k));
  products_go();
  products_wait();
}
template <class H>
__device__ __forceinline__ void multiply_down(float (&sums)[2][32], const unsigned char* weights, const void* inputs,
                                              int group, int member, H h) {
  u32 left[2][2][4];
#pragma unroll
  for (int k = 0; k < 2; ++k)
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int row = 16 * k + 8 * v + 2 * member;
      const float4 first = *(const float4*)(weights + place(row, 4 * group));
      const float4 second = *(const float4*)(weights + place(row + 1, 4 * group));
      left[k][0][2 * v] = pair_of(first.x, second.x, h);
      left[k][0][2 * v + 1] = pair_of(first.y, second.y, h);
      left[k][1][2 * v] = pair_of(first.z, second.z, h);
      left[k][1][2 * v + 1] = pair_of(first.w, second.w, h);
    }
  products_begin();
#pragma unroll
  for (int k = 0; k < 2; ++k)
#pragma unroll
    for (int half = 0; half < 2; ++half) multiply_halves(sums[half], left[k][half], half_matrix(inputs, k), h);
  products_go();
  products_wait();
}

extern "C" __global__ void __launch_bounds__(WARPS * 32 + 32, 1)
    matmul_tma(const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const T* bias, Y* y, int m,
               i64 n, int tiles, int stripes) {
  let_next_begin();
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned char *const weights = memory, *const inputs = memory + STAGES * WEIGHTS;
  u64 *const full = (u64*)(inputs + STAGES * INPUTS), *const empty = full + STAGES;
  const Share share(tiles, stripes);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  prepare_barriers(full, empty, STAGES, WARPS);
  __syncthreads();

  if (warp == WARPS) {
    if (lane != 0) return;
    const auto tile_at = [&](int t) { return share.tile(ALONG ? t : share.count - 1 - t); };
    const auto load_weights = [&](int t) {
      const int s = t % STAGES, tile = tile_at(t);
      barrier_expect(full + s, WEIGHTS + INPUTS);
      if (ALONG)
        load_tile<true>(weights + s * WEIGHTS, &w, 0, share.stripe * 64, tile * UNITS, full + s);
      else
        load_tile<true>(weights + s * WEIGHTS, &w, 0, tile * 32, share.stripe * UNITS, full + s);
    };
    const auto load_inputs = [&](int t) {
      const int s = t % STAGES;
      load_tile<false>(inputs + s * INPUTS, &x, 0, 0, tile_at(t) * (ALONG ? UNITS : 1), full + s);
    };
    const int first = share.count < STAGES ? share.count : STAGES;
    if (!EARLY) wait_for_earlier();
    for (int t = 0; t < first; ++t) load_weights(t);
    if (EARLY) wait_for_earlier();
    for (int t = 0; t < first; ++t) load_inputs(t);
    for (int t = first; t < share.count; ++t) {
      barrier_wait(empty + t % STAGES, t / STAGES - 1);
      load_weights(t);
      load_inputs(t);
    }
    return;
  }

  wait_for_earlier();
  const int group = lane / 4, member = lane % 4;
#if ALONG
  float sums[32] = {};
#else
  float sums[2][32] = {};
#endif
  for (int t = 0; t < share.count; ++t) {
    const int s = t % STAGES;
    barrier_wait(full + s, t / STAGES);
#if ALONG
    products_begin();
#pragma unroll
    for (int u = 0; u < UNITS; ++u)
#pragma unroll
      for (int k = 0; k < 4; ++k)
        multiply(sums, matrix(inputs + s * INPUTS + u * 8192, k), matrix(weights + s * WEIGHTS + u * 8192, k));
    products_go();
    products_wait();
#else
    multiply_down(sums, weights + s * WEIGHTS + (warp < UNITS ? warp : 0) * 4096, inputs + s * INPUTS, group, member,
                  T());
#endif
    if (lane == 0) barrier_arrive(empty + s);
  }

  y += share.split * (i64)m * n;
#if ALONG
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * warp + i / 2 * 8 + group;
      const i64 column = share.stripe * 64ll + 8 * j + 2 * member + i % 2;
      if (row < m && column < n) y[row * n + column] = finished(sums[4 * j + i], bias, column);
    }
#else
  const i64 column = ((i64)share.stripe * UNITS + warp) * 32 + 4 * group;
  if (warp >= UNITS || column >= n) return;
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int row = 8 * j + 2 * member + e;
      if (row < m)
        store_four(y + row * n + column, finished(sums[0][4 * j + e], bias, column),
                   finished(sums[0][4 * j + 2 + e], bias, column + 1), finished(sums[1][4 * j + e], bias, column + 2),
                   finished(sums[1][4 * j + 2 + e], bias, column + 3));
    }
#endif
}
