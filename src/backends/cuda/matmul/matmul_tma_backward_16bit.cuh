// What the warps of matmul/matmul_tma_backward.cu do, where x and g have 16 bits: a lane multiplies for dx by the
// weights that it updates, rounded.
#pragma once

__device__ __forceinline__ u32 pair_at(const T* first, const T* second) {
  return (u32) * (const u16*)first | (u32) * (const u16*)second << 16;
}

__device__ __forceinline__ void compute(const TmaOperands& o, unsigned char* memory, const T* x, i64 x_row,
                                        float* parts, int m, i64 rows, const Share& share) {
  const T kind = {};
  const int first_row = share.stripe * 128;
  u64 *const full = (u64*)(memory + STAGES * STAGE), *const done = full + STAGES;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int group = lane / 4, member = lane % 4, team = warp / 4, my_row = warp % 4 * 32;
  u32 left[2][4][4];
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const i64 row = first_row + my_row + 16 * h + i % 2 * 8 + group;
        const int term = 16 * k + i / 2 * 8 + 2 * member;
        const T* const at = x + term * x_row + row;
        left[h][k][i] = 0;
        if (row < rows && term < m) left[h][k][i] = term + 1 < m ? pair_at(at, at + x_row) : (u32) * (const u16*)at;
      }
  float s[SCALARS + 1];
#pragma unroll
  for (int i = 0; i < SCALARS; ++i) s[i] = *o.scalars[i];

  float dx[2][32] = {};
  for (int t = team; t < share.count; t += 2) {
    const int stage = t % STAGES;
    unsigned char *const tile = memory + stage * STAGE, *const g = tile + TENSORS * TILE;
    wait_for_tile(full, t);
    u32 old[2][2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = my_row + 16 * h + i % 2 * 8 + group, column = 16 * half + i / 2 * 8 + 2 * member;
          const float2 two = *(const float2*)(tile + WEIGHTS * TILE + place(row, column));
          old[half][h][i] = pair_of(two.x, two.y, kind);
        }
    products_begin();
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int h = 0; h < 2; ++h) multiply_halves(dx[h], old[half][h], half_matrix(g, half), kind);
    products_go();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sums[2][2][4] = {};
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          u32 right[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int term = 16 * k + 8 * i + 2 * member, column = 16 * half + 8 * j + group;
            right[i] = pair_at((const T*)(g + half_place(term, column)), (const T*)(g + half_place(term + 1, column)));
          }
#pragma unroll
          for (int h = 0; h < 2; ++h) mma(sums[h][j], left[h][k], right[0], right[1], kind);
        }
      update_columns(tile, my_row + group, 16 * half + 2 * member, sums, s);
    }
    products_wait();
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
      for (int i = 0; i < 4; ++i) {
        const int sample = 8 * j + 2 * member + i % 2;
        const i64 row = first_row + my_row + 16 * h + i / 2 * 8 + group;
        if (sample < m && row < rows) parts[sample * rows + row] = dx[h][4 * j + i];
      }
}
