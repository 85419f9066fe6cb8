// A weight's gradient g = aᵀ·b, a sum of few terms, and what an optimiser does with it: the weights and moments stream
// through shared memory once (kernels/stream.cuh), and the gradient is never stored.
//   a: [K,M]  b: [K,N], of type IN, rows of b b_row apart    weights and moments: [M,N]    K ≤ 8 · STEPS, N % 32 = 0
//   TENSORS, SCALARS, RESULTS and update(g, x, s, y) stand before: y = formula of the gradient, of the tensors'
//   elements x, and of the scalars s. RESULTS ≤ TENSORS
// A block has UNITS · 32 columns, of which each warp has 32, and every lanes-th tile of 16 rows. Its part of b stays in
// registers.

#define TILE (UNITS * 16 * 128)  // bytes of a tensor's tile
#define A_ROW (16 * (int)sizeof(IN))
#define A_TILE (8 * STEPS * A_ROW)
#define STAGE (TENSORS * TILE + (A_TILE + 1023) / 1024 * 1024)

// As stream_update.cpp fills it.
struct StreamOperands {
  TensorMap tensors[4], results[4], a;
  const float* scalars[10];
};

// a[k][row of the tile]; the copy engine has turned rows of 32 or 64 bytes too.
__device__ __forceinline__ u32 a_word(const unsigned char* tile, int k, int row) {
  const int column = row * (int)sizeof(IN), turn = sizeof(IN) == 4 ? k / 2 % 4 : k / 4 % 2;
  const IN x = *(const IN*)(tile + k * A_ROW + ((column / 16) ^ turn) * 16 + column % 16);
  return rounded(widen<float>(x));
}

// d += a·b of 16 × 8 and 8 × 8 numbers in TF32, which holds every bf16.
__device__ __forceinline__ void multiply_add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef VARVE_EMULATED
  emu_mma_m16n8k8_tf32(d, a, b, d);
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ __forceinline__ void load_stage(const StreamOperands& o, unsigned char* stage, int tile, int stripe,
                                           u64* barrier) {
  barrier_expect(barrier, TENSORS * TILE + A_TILE);
#pragma unroll
  for (int t = 0; t < TENSORS; ++t)
    load_tile<false>(stage + t * TILE, &o.tensors[t], 0, tile * 16, stripe * UNITS, barrier);
  load_tile<false>(stage + TENSORS * TILE, &o.a, tile * 16, 0, 0, barrier);
}

extern "C" __global__ void __launch_bounds__(UNITS * 32 + 32, 2)
    stream_update(const __grid_constant__ StreamOperands o, const IN* b, i64 b_row, int terms, int tiles, i64 n,
                  int stripes) {
  extern __shared__ __align__(1024) unsigned char memory[];
  u64 *const full = (u64*)(memory + STAGES * STAGE), *const done = full + STAGES;
  const int stripe = (int)blockIdx.x % stripes, lane_of_block = (int)blockIdx.x / stripes;
  const int lanes = (int)gridDim.x / stripes, count = (tiles - lane_of_block + lanes - 1) / lanes;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(full + s, 1);
      barrier_init(done + s, UNITS);
    }
    barriers_ready();
  }
  __syncthreads();

  // One thread brings tiles and takes them back: a stage is free again when the copy engine has read it.
  if (warp == UNITS) {
    if (lane != 0) return;
    for (int t = 0; t < count && t < STAGES; ++t)
      load_stage(o, memory + t * STAGE, lane_of_block + t * lanes, stripe, full + t);
    for (int t = 0; t < count; ++t) {
      const int s = t % STAGES, last = (t + STAGES - 1) % STAGES, next = t - 1 + STAGES;
      barrier_wait(done + s, t / STAGES);
#pragma unroll
      for (int r = 0; r < RESULTS; ++r)
        store_tile(&o.results[r], memory + s * STAGE + r * TILE, 0, (lane_of_block + t * lanes) * 16, stripe * UNITS);
      stores_end();
      if (t == 0 || next >= count) continue;
      stores_but_one_are_read();
      load_stage(o, memory + last * STAGE, lane_of_block + next * lanes, stripe, full + last);
    }
    stores_are_done();
    return;
  }

  // Of eight terms a lane multiplies number `first` and the one two further: so lanes read different banks.
  const int group = lane / 4, member = lane % 4, first = member / 2 * 4 + member % 2;
  u32 right[STEPS][4][2];
#pragma unroll
  for (int k = 0; k < STEPS; ++k)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const i64 column = ((i64)stripe * UNITS + warp) * 32 + 8 * j + group;
        const int term = 8 * k + first + 2 * v;
        right[k][j][v] = column < n && term < terms ? rounded(widen<float>(b[term * b_row + column])) : 0u;
      }
  float s[SCALARS + 1];
#pragma unroll
  for (int i = 0; i < SCALARS; ++i) s[i] = *o.scalars[i];

  for (int t = 0; t < count; ++t) {
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
      for (int j = 0; j < 4; ++j) multiply_add(sums[j], left, right[k][j]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int at = place(8 * u + group, 8 * j + 2 * member);
        float2 x[TENSORS], y[RESULTS];
#pragma unroll
        for (int i = 0; i < TENSORS; ++i) x[i] = *(const float2*)(mine + i * TILE + at);
        float before[TENSORS], after[RESULTS];
#pragma unroll
        for (int i = 0; i < TENSORS; ++i) before[i] = x[i].x;
        update(sums[j][2 * u], before, s, after);
#pragma unroll
        for (int i = 0; i < RESULTS; ++i) y[i].x = after[i];
#pragma unroll
        for (int i = 0; i < TENSORS; ++i) before[i] = x[i].y;
        update(sums[j][2 * u + 1], before, s, after);
#pragma unroll
        for (int i = 0; i < RESULTS; ++i) {
          y[i].y = after[i];
          *(float2*)(mine + i * TILE + at) = y[i];
        }
      }
    tile_is_written();
    __syncwarp();
    if (lane == 0) barrier_arrive(done + stage);
  }
}
