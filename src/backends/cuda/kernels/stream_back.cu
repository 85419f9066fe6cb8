// Both gradients of a dense layer with few samples and large weights, and what an optimiser does with that of the
// weights, which stream through shared memory once (kernels/stream.cuh):
//   dx[M,R] = g[M,C]·w[R,C]ᵀ as parts[2 · lanes][M,R], which stream_sum adds
//   w and its moments [R,C] = update(x[M,R]ᵀ·g, …)
//   M ≤ 64, R % 8 = 0, C % 32 = 0; all f32, products in TF32
//   TENSORS, SCALARS, RESULTS and update(…) as in kernels/stream_update.cu; tensor WEIGHTS is w
// A block has 128 rows of w, and every lanes-th tile of 32 columns. Two teams of four warps take turns with the tiles;
// a warp updates 32 rows, whose part of x stays in registers.

#define TILE (128 * 128)  // bytes
#define G_TILE (64 * 128)
#define STAGE (TENSORS * TILE + G_TILE)

__device__ __forceinline__ void load_stage(const StreamOperands& o, unsigned char* stage, int row, int slab,
                                           u64* barrier) {
  barrier_expect(barrier, STAGE);
#pragma unroll
  for (int t = 0; t < TENSORS; ++t) load_tile<false>(stage + t * TILE, &o.tensors[t], 0, row, slab, barrier);
  load_tile<false>(stage + TENSORS * TILE, &o.factor, 0, 0, slab, barrier);
}

__device__ __forceinline__ void compute(const StreamOperands& o, unsigned char* memory, const float* x, i64 x_row,
                                        float* parts, int m, i64 rows, const Share& share) {
  const int first_row = share.stripe * 128;
  u64 *const full = (u64*)(memory + STAGES * STAGE), *const done = full + STAGES, *const read = done + STAGES;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int group = lane / 4, member = lane % 4, team = warp / 4, my_row = warp % 4 * 32;
  u32 left[2][8][4];
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int k = 0; k < 8; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const i64 row = first_row + my_row + 16 * h + i % 2 * 8 + group;
        const int term = 8 * k + 2 * member + i / 2;
        left[h][k][i] = row < rows && term < m ? rounded(x[term * x_row + row]) : 0u;
      }
  float s[SCALARS + 1];
#pragma unroll
  for (int i = 0; i < SCALARS; ++i) s[i] = *o.scalars[i];

  float dx[2][32] = {};
  for (int t = team; t < share.count; t += 2) {
    const int stage = t % STAGES;
    unsigned char *const tile = memory + stage * STAGE, *const g = tile + TENSORS * TILE;
    barrier_wait(full + stage, t / STAGES);
    products_begin();
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int h = 0; h < 2; ++h) multiply(dx[h], matrix(g, k), matrix(tile + WEIGHTS * TILE + h * 64 * 128, k));
    products_go();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sums[2][2][4] = {};
#pragma unroll
      for (int k = 0; k < 8; ++k) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          u32 right[2];
#pragma unroll
          for (int i = 0; i < 2; ++i)
            right[i] = rounded(*(const float*)(g + place(8 * k + 2 * member + i, 16 * half + 8 * j + group)));
#pragma unroll
          for (int h = 0; h < 2; ++h) mma_tf32(sums[h][j], left[h][k], right[0], right[1]);
        }
      }
      // The old weights stay until all warps of the team have multiplied by them.
      if (half == 0) {
        products_wait();
        __syncwarp();
        if (lane == 0) barrier_arrive(read + team);
        barrier_wait(read + team, t / 2);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
          for (int u = 0; u < 2; ++u)
            update_two(tile + place(my_row + 16 * h + 8 * u + group, 16 * half + 8 * j + 2 * member), TILE,
                       sums[h][j][2 * u], sums[h][j][2 * u + 1], s);
    }
    tile_is_written();
    __syncwarp();
    if (lane == 0) barrier_arrive(done + stage);
  }

  parts += (i64)(2 * share.lane + team) * m * rows;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int sample = warp % 4 * 16 + 8 * u + group;
        const i64 row = first_row + 64 * h + 8 * j + 2 * member;
        if (sample < m && row < rows)
          *(float2*)(parts + sample * rows + row) = make_float2(dx[h][4 * j + 2 * u], dx[h][4 * j + 2 * u + 1]);
      }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    stream_back(const __grid_constant__ StreamOperands o, const float* x, i64 x_row, float* parts, int m, i64 rows,
                int tiles, int stripes) {
  extern __shared__ __align__(1024) unsigned char memory[];
  u64 *const full = (u64*)(memory + STAGES * STAGE), *const done = full + STAGES, *const read = done + STAGES;
  const Share share(tiles, stripes);
  const int first_row = share.stripe * 128;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  prepare_barriers(full, done, STAGES, 4);
  if (threadIdx.x == 0) {
    barrier_init(read, 4);
    barrier_init(read + 1, 4);
    barriers_ready();
  }
  __syncthreads();

  // Four warps of which one thread brings and takes tiles, so that the others may have their registers.
  if (warp >= 8) {
    fewer_registers<40>();
    if (warp > 8 || lane != 0) return;
    for (int t = 0; t < share.count && t < STAGES; ++t)
      load_stage(o, memory + t * STAGE, first_row, share.tile(t), full + t);
    for (int t = 0; t < share.count; ++t) {
      const int s = t % STAGES, last = (t + STAGES - 1) % STAGES, next = t - 1 + STAGES;
      barrier_wait(done + s, t / STAGES);
#pragma unroll
      for (int r = 0; r < RESULTS; ++r)
        store_tile(&o.results[r], memory + s * STAGE + r * TILE, 0, first_row, share.tile(t));
      stores_end();
      if (t == 0 || next >= share.count) continue;
      stores_but_one_are_read();
      load_stage(o, memory + last * STAGE, first_row, share.tile(next), full + last);
    }
    stores_are_done();
  } else {
    more_registers<232>();
    compute(o, memory, x, x_row, parts, m, rows, share);
  }
}
