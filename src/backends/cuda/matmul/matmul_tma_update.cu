// A weight's gradient g = aᵀ·b, a sum of few terms, and what an optimiser does with it: the weights and moments pass
// through shared memory once (kernels/tma.cuh), and the gradient is never stored.
//   a: [K,M]  b: [K,N], of type IN, rows of b b_row apart    weights and moments: [M,N]    K ≤ 8 · STEPS, N % 32 = 0
//   EARLY 1  no earlier kernel of the step writes the weights and moments: their first tiles need not wait for one
// A block has UNITS · 32 columns, of which each warp has 32, and every splits-th tile of 16 rows. Its part of b stays
// in registers.
#include "kernels/tensor_core.cuh"

#include "matmul/matmul_tma_formula.cuh"

#define TILE (UNITS * 16 * 128)  // bytes of a tensor's tile
#define A_ROW (16 * (int)sizeof(IN))
#define A_TILE (8 * STEPS * A_ROW)
#define STAGE (TENSORS * TILE + (A_TILE + 1023) / 1024 * 1024)

// a[k][row of the tile]; TMA has swizzled rows of 32 or 64 bytes too.
__device__ __forceinline__ u32 a_word(const unsigned char* tile, int k, int row) {
  const int column = row * (int)sizeof(IN), turn = sizeof(IN) == 4 ? k / 2 % 4 : k / 4 % 2;
  const IN x = *(const IN*)(tile + k * A_ROW + ((column / 16) ^ turn) * 16 + column % 16);
  return tf32_round(widen<float>(x));
}

__device__ __forceinline__ void load_tensors(const TmaOperands& o, unsigned char* stage, int tile, int stripe,
                                             u64* barrier) {
  barrier_expect(barrier, TENSORS * TILE + A_TILE);
#pragma unroll
  for (int t = 0; t < TENSORS; ++t)
    load_tile<false>(stage + t * TILE, &o.tensors[t], 0, tile * 16, stripe * UNITS, barrier);
}
__device__ __forceinline__ void load_factor(const TmaOperands& o, unsigned char* stage, int tile, u64* barrier) {
  load_tile<false>(stage + TENSORS * TILE, &o.factor, tile * 16, 0, 0, barrier);
}

extern "C" __global__ void __launch_bounds__(UNITS * 32 + 32, 2)
    matmul_tma_update(const __grid_constant__ TmaOperands o, const IN* b, i64 b_row, int terms, int tiles, i64 n,
                      int stripes) {
  let_next_begin();
  extern __shared__ __align__(1024) unsigned char memory[];
  u64 *const full = (u64*)(memory + STAGES * STAGE), *const done = full + STAGES;
  const Share share(tiles, stripes);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  prepare_barriers(full, done, STAGES, UNITS);
  __syncthreads();

  // One thread brings tiles and takes them back: a stage is free again when TMA has read it.
  if (warp == UNITS) {
    if (lane != 0) return;
    if (!EARLY) wait_for_earlier();
    for (int t = 0; t < share.count && t < STAGES; ++t)
      load_tensors(o, memory + t * STAGE, share.tile(t), share.stripe, full + t);
    if (EARLY) wait_for_earlier();
    for (int t = 0; t < share.count && t < STAGES; ++t) load_factor(o, memory + t * STAGE, share.tile(t), full + t);
    for (int t = 0; t < share.count; ++t) {
      const int s = t % STAGES, last = (t + STAGES - 1) % STAGES, next = t - 1 + STAGES;
      barrier_wait(done + s, t / STAGES);
#pragma unroll
      for (int r = 0; r < RESULTS; ++r)
        store_tile(&o.results[r], memory + s * STAGE + r * TILE, 0, (share.tile(t)) * 16, share.stripe * UNITS);
      stores_end();
      if (t == 0 || next >= share.count) continue;
      stores_but_one_are_read();
      load_tensors(o, memory + last * STAGE, share.tile(next), share.stripe, full + last);
      load_factor(o, memory + last * STAGE, share.tile(next), full + last);
    }
    stores_are_done();
    return;
  }

  wait_for_earlier();
  // Of eight terms a lane multiplies number `first` and the one two further: so splits read different banks.
  const int group = lane / 4, member = lane % 4, first = member / 2 * 4 + member % 2;
  u32 right[STEPS][4][2];
#pragma unroll
  for (int k = 0; k < STEPS; ++k)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const i64 column = ((i64)share.stripe * UNITS + warp) * 32 + 8 * j + group;
        const int term = 8 * k + first + 2 * v;
        right[k][j][v] = column < n && term < terms ? tf32_round(widen<float>(b[term * b_row + column])) : 0u;
      }
  float s[SCALARS + 1];
#pragma unroll
  for (int i = 0; i < SCALARS; ++i) s[i] = *o.scalars[i];

  for (int t = 0; t < share.count; ++t) {
    const int stage = t % STAGES;
    barrier_wait(full + stage, t / STAGES);
    unsigned char *const tile = memory + stage * STAGE, *const mine = tile + warp * 16 * 128;
    float sums[4][4] = {};
#pragma unroll
    for (int k = 0; k < STEPS; ++k) {
      u32 left[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) left[i] = a_word(tile + TENSORS * TILE, 8 * k + first + i / 2 * 2, i % 2 * 8 + group);
#pragma unroll
      for (int j = 0; j < 4; ++j) mma_tf32(sums[j], left, right[k][j][0], right[k][j][1]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int u = 0; u < 2; ++u)
        update_two(mine + place(8 * u + group, 8 * j + 2 * member), TILE, sums[j][2 * u], sums[j][2 * u + 1], s);
    tile_is_written();
    __syncwarp();
    if (lane == 0) barrier_arrive(done + stage);
  }
}
