#include "attention/attention_tensor_core.cuh"

// y = softmax(q·kᵀ·scale)·v, and lse, the logarithms of the sums of exponentials; 0 for a query that sees no key.
extern "C" __global__ void __launch_bounds__(kThreads)
    attention(Problem p, Operand q, Operand k, Operand v, Operand y, float* lse) {
  begin_kernel();
  extern __shared__ __align__(16) char memory[];
  T* q_tile = (T*)memory;
  T* stages = q_tile + kOuterTile;  // twice a tile of keys and one of values
  const i64 head = blockIdx.x % p.heads;
  const i64 first = ((p.queries + kRows - 1) / kRows - 1 - blockIdx.x / p.heads) * kRows;  // the most work first
  const T *k_head = head_of(k, p, head), *v_head = head_of(v, p, head);
  const auto fetch = [&](i64 key) {
    T* stage = stages + key / INNER % 2 * (2 * kInnerTile);
    copy_tile<INNER>(stage, k_head, k, key, p.keys);
    copy_tile<INNER>(stage + kInnerTile, v_head, v, key, p.keys);
    end_copies();
  };
  copy_tile<kRows>(q_tile, head_of(q, p, head), q, first, p.queries);
  fetch(0);
  float sums[TILES][DEPTH / 8][4], highest[TILES][2], total[TILES][2];
  clear(sums);
#pragma unroll
  for (int t = 0; t < TILES; ++t) {
    highest[t][0] = highest[t][1] = -infinity();
    total[t][0] = total[t][1] = 0;
  }
  const float scale = (float)p.scale * kLog2E;  // exponentials to base 2
  const i64 end = keys_seen(least(first + kRows, p.queries) - 1, p);
  const i64 row = first + warp_row(), warp_end = keys_seen(row + kWarpRows - 1, p);  // of this warp
  for (i64 key = 0; key < end; key += INNER) {
    const T *k_tile = stages + key / INNER % 2 * (2 * kInnerTile), *v_tile = k_tile + kInnerTile;
    wait_for_copies();
    __syncthreads();
    if (key + INNER < end) fetch(key + INNER);
    const int live = clamp_to(warp_end - key, INNER);
    float s[TILES][INNER / 8][4];
    clear(s);
    multiply_rows<INNER>(s, q_tile, k_tile, 0, live);
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int seen = clamp_to(keys_seen(row + 16 * t + 8 * half + lane_row(), p) - key, INNER) - lane_column();
        float high = highest[t][half];  // NaN does not show here, but in the sum
#pragma unroll
        for (int j = 0; j < INNER / 8; ++j)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& score = s[t][j][2 * half + i];
            score = 8 * j + i < seen ? score * scale : -infinity();
            high = fmaxf(high, score);
          }
        high = quad_max(high);
        const float shift = high == -infinity() ? 0.f : high, shrink = power_of_2(highest[t][half] - shift);
        highest[t][half] = high;
        total[t][half] *= shrink;
#pragma unroll
        for (int j = 0; j < INNER / 8; ++j)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& score = s[t][j][2 * half + i];
            score = power_of_2(score - shift);
            total[t][half] += score;
          }
#pragma unroll
        for (int j = 0; j < DEPTH / 8; ++j) {
          sums[t][j][2 * half] *= shrink;
          sums[t][j][2 * half + 1] *= shrink;
        }
      }
    add_rows<INNER>(sums, s, v_tile, 0, live);
  }
  float factors[TILES][2];
#pragma unroll
  for (int t = 0; t < TILES; ++t)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = quad_sum(total[t][half]);
      factors[t][half] = sum == 0 ? 0.f : 1 / sum;
      const i64 query = row + 16 * t + 8 * half + lane_row();
      if (lane() % 4 == 0 && query < p.queries)
        lse[head * p.queries + query] = sum == 0 ? 0.f : (highest[t][half] + log2f(sum)) * kLn2;
    }
  wait_for_copies();
  __syncthreads();  // nothing is in flight to the tile, and everybody has read it
  store_results(sums, factors, q_tile, head_of(y, p, head), y, first, p.queries);
}
