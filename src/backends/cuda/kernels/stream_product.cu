// y[M,N] = x[M,K]·w with few rows and large weights, which stream through shared memory once (kernels/stream.cuh).
//   M ≤ 64; all f32, products in TF32    what follows (kernels/stream_after.cuh): where a block has whole sums
//   ALONG 0  w[K,N]: a block has UNITS · 32 columns of it, in tiles of 32 rows
//         1  w[N,K]: a block has 64 rows of it, in tiles of UNITS · 32 columns
// Where several blocks share a stripe of w, y is parts[lanes][M,N] that stream_sum adds.

#define WARPS (ALONG ? 4 : 8)                                  // that compute; one more brings the tiles
#define WEIGHTS (ALONG ? UNITS * 64 * 128 : UNITS * 32 * 128)  // bytes of a tile
#define INPUTS (ALONG ? UNITS * 64 * 128 : 64 * 128)

extern "C" __global__ void __launch_bounds__(WARPS * 32 + 32, 1)
    stream_product(const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const float* bias,
                   float* y, int m, i64 n, int tiles, int stripes) {
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned char *const weights = memory, *const inputs = memory + STAGES * WEIGHTS;
  u64 *const full = (u64*)(inputs + STAGES * INPUTS), *const empty = full + STAGES;
  const Share share(tiles, stripes);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  prepare_barriers(full, empty, STAGES, WARPS);
  __syncthreads();

  if (warp == WARPS) {
    if (lane != 0) return;
    for (int t = 0; t < share.count; ++t) {
      const int s = t % STAGES, tile = share.tile(t);
      if (t >= STAGES) barrier_wait(empty + s, t / STAGES - 1);
      barrier_expect(full + s, WEIGHTS + INPUTS);
      if (ALONG)
        load_tile<true>(weights + s * WEIGHTS, &w, 0, share.stripe * 64, tile * UNITS, full + s);
      else
        load_tile<true>(weights + s * WEIGHTS, &w, 0, tile * 32, share.stripe * UNITS, full + s);
      load_tile<false>(inputs + s * INPUTS, &x, 0, 0, tile * (ALONG ? UNITS : 1), full + s);
    }
    return;
  }

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
#else
    // Columns of w are rows of the tensor cores' left operand: of its 32 columns a lane has four neighbours, two for
    // each of two products.
    const unsigned char* mine = weights + s * WEIGHTS + (warp < UNITS ? warp : 0) * 4096;
    u32 left[4][2][4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const float4 four = *(const float4*)(mine + place(8 * k + 4 * v + member, 4 * group));
        left[k][0][2 * v] = rounded(four.x);
        left[k][0][2 * v + 1] = rounded(four.y);
        left[k][1][2 * v] = rounded(four.z);
        left[k][1][2 * v + 1] = rounded(four.w);
      }
    products_begin();
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int half = 0; half < 2; ++half) multiply(sums[half], left[k][half], matrix(inputs + s * INPUTS, k));
#endif
    products_go();
    products_wait();
    if (lane == 0) barrier_arrive(empty + s);
  }

  y += share.lane * (i64)m * n;
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
        *(float4*)(y + row * n + column) = make_float4(
            finished(sums[0][4 * j + e], bias, column), finished(sums[0][4 * j + 2 + e], bias, column + 1),
            finished(sums[1][4 * j + e], bias, column + 2), finished(sums[1][4 * j + 2 + e], bias, column + 3));
    }
#endif
}
