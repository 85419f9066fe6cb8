// What the warps of matmul/matmul_tma_backward.cu do, where x and g are f32: products in TF32, that for dx of tiles as
// they lie in shared memory.
#pragma once

__device__ __forceinline__ void compute(const TmaOperands& o, unsigned char* memory, const T* x, i64 x_row,
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
        left[h][k][i] = row < rows && term < m ? tf32_round(x[term * x_row + row]) : 0u;
      }
  float s[SCALARS + 1];
#pragma unroll
  for (int i = 0; i < SCALARS; ++i) s[i] = *o.scalars[i];

  float dx[2][32] = {};
  for (int t = team; t < share.count; t += 2) {
    const int stage = t % STAGES;
    unsigned char *const tile = memory + stage * STAGE, *const g = tile + TENSORS * TILE;
    wait_for_tile(full, t);
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
            right[i] = tf32_round(*(const float*)(g + place(8 * k + 2 * member + i, 16 * half + 8 * j + group)));
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
      update_columns(tile, my_row + group, 16 * half + 2 * member, sums, s);
    }
    tile_is_written();
    __syncwarp();
    if (lane == 0) barrier_arrive(done + stage);
  }

  parts += (i64)(2 * share.split + team) * m * rows;
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
