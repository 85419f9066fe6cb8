// Both gradients of a dense layer with few samples and large weights, and what an optimiser does with that of the
// weights, which pass through shared memory once (kernels/tma.cuh):
//   dx[M,R] = g[M,C]·w[R,C]ᵀ as parts[2 · splits][M,R], which split_k_sum adds
//   w and its moments [R,C] = update(x[M,R]ᵀ·g, …)
//   M ≤ 64, R % 8 = 0, C % 32 = 0; parts, w and moments are f32
//   T  of x and g. f32: products in TF32; bf16 or f16: w is rounded to that for dx
//   TENSORS, SCALARS, RESULTS, EARLY and update(…) as in matmul/matmul_tma_update.cu; tensor WEIGHTS is w
// A block has 128 rows of w, and every splits-th pair of tiles of 32 columns. Two teams of four warps take turns with
// the tiles; a warp updates 32 rows, whose part of x stays in registers.
#include "kernels/tensor_core.cuh"

#include "matmul/matmul_tma_formula.cuh"

#define TILE (128 * 128)  // bytes
#define G_TILE (64 * 32 * (int)sizeof(T))
#define STAGE (TENSORS * TILE + G_TILE)

__device__ __forceinline__ void load_tensors(const TmaOperands& o, unsigned char* stage, int row, int slab,
                                             u64* barrier) {
  barrier_expect(barrier, STAGE);
#pragma unroll
  for (int t = 0; t < TENSORS; ++t) load_tile<false>(stage + t * TILE, &o.tensors[t], 0, row, slab, barrier);
}
__device__ __forceinline__ void load_factor(const TmaOperands& o, unsigned char* stage, int slab, u64* barrier) {
  load_tile<false>(stage + TENSORS * TILE, &o.factor, 0, 0, slab, barrier);
}

// A warp's 32 rows and 16 columns of the tile, of which a lane has pairs from this row and column on.
__device__ __forceinline__ void update_columns(unsigned char* tile, int row, int column,
                                               const float (&gradient)[2][2][4], const float* s) {
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int u = 0; u < 2; ++u)
        update_two(tile + place(row + 16 * h + 8 * u, column + 8 * j), TILE, gradient[h][j][2 * u],
                   gradient[h][j][2 * u + 1], s);
}

// A barrier's rounds are told apart by their parity alone, and with an odd number of stages a team has every second
// round of each: so it waits for the other team's tiles too.
__device__ __forceinline__ void wait_for_tile(u64* full, int t) {
  if (t > 0) barrier_wait(full + (t - 1) % STAGES, (t - 1) / STAGES);
  barrier_wait(full + t % STAGES, t / STAGES);
}

// compute(…), what the warps do.
#if TF32
#include "matmul/matmul_tma_backward_tf32.cuh"
#else
#include "matmul/matmul_tma_backward_16bit.cuh"
#endif

extern "C" __global__ void __launch_bounds__(384, 1)
    matmul_tma_backward(const __grid_constant__ TmaOperands o, const T* x, i64 x_row, float* parts, int m, i64 rows,
                        int tiles, int stripes) {
  let_next_begin();
  extern __shared__ __align__(1024) unsigned char memory[];
  u64 *const full = (u64*)(memory + STAGES * STAGE), *const done = full + STAGES, *const read = done + STAGES;
  const Share share(tiles, stripes, 2);
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
    if (!EARLY) wait_for_earlier();
    for (int t = 0; t < share.count && t < STAGES; ++t)
      load_tensors(o, memory + t * STAGE, first_row, share.tile(t), full + t);
    if (EARLY) wait_for_earlier();
    for (int t = 0; t < share.count && t < STAGES; ++t) load_factor(o, memory + t * STAGE, share.tile(t), full + t);
    for (int t = 0; t < share.count; ++t) {
      const int s = t % STAGES, last = (t + STAGES - 1) % STAGES, next = t - 1 + STAGES;
      barrier_wait(done + s, t / STAGES);
#pragma unroll
      for (int r = 0; r < RESULTS; ++r)
        store_tile(&o.results[r], memory + s * STAGE + r * TILE, 0, first_row, share.tile(t));
      stores_end();
      if (t == 0 || next >= share.count) continue;
      stores_but_one_are_read();
      load_tensors(o, memory + last * STAGE, first_row, share.tile(next), full + last);
      load_factor(o, memory + last * STAGE, share.tile(next), full + last);
    }
    stores_are_done();
  } else {
    more_registers<232>();
    wait_for_earlier();
    compute(o, memory, x, x_row, parts, m, rows, share);
  }
}
