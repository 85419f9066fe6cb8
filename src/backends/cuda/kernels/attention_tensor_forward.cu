// After attention_tensor.cu.

// y = softmax(q·kᵀ·scale)·v, and lse, the logarithms of the sums of exponentials; 0 for a query that sees no key.
extern "C" __global__ void __launch_bounds__(kThreads)
    attention(Problem p, Operand q, Operand k, Operand v, Operand y, float* lse) {
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
  float sums[DEPTH / 8][4], highest[2] = {-infinity(), -infinity()}, total[2] = {0, 0};
  clear(sums);
  const float scale = (float)p.scale * kLog2E;  // exponentials to base 2
  const i64 end = keys_seen(least(first + kRows, p.queries) - 1, p);
  const i64 row = first + warp_row(), warp_end = keys_seen(row + 15, p);  // of this warp
  for (i64 key = 0; key < end; key += INNER) {
    const T *k_tile = stages + key / INNER % 2 * (2 * kInnerTile), *v_tile = k_tile + kInnerTile;
    wait_for_copies();
    __syncthreads();
    if (key + INNER < end) fetch(key + INNER);
    const int live = clamp_to(warp_end - key, INNER);
    float s[INNER / 8][4];
    clear(s);
    multiply_rows<INNER>(s, q_tile, warp_row(), k_tile, 0, live);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int seen = clamp_to(keys_seen(row + lane_row() + 8 * half, p) - key, INNER) - lane_column();
      float high = highest[half];  // NaN does not show here, but in the sum
#pragma unroll
      for (int j = 0; j < INNER / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = s[j][2 * half + i];
          score = 8 * j + i < seen ? score * scale : -infinity();
          high = fmaxf(high, score);
        }
      high = quad_max(high);
      const float shift = high == -infinity() ? 0.f : high, shrink = power_of_2(highest[half] - shift);
      highest[half] = high;
      total[half] *= shrink;
#pragma unroll
      for (int j = 0; j < INNER / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          s[j][2 * half + i] = power_of_2(s[j][2 * half + i] - shift);
          total[half] += s[j][2 * half + i];
        }
#pragma unroll
      for (int j = 0; j < DEPTH / 8; ++j) {
        sums[j][2 * half] *= shrink;
        sums[j][2 * half + 1] *= shrink;
      }
    }
    add_rows<INNER>(sums, s, v_tile, 0, live);
  }
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = quad_sum(total[half]);
    factor[half] = sum == 0 ? 0.f : 1 / sum;
    const i64 query = row + lane_row() + 8 * half;
    if (lane() % 4 == 0 && query < p.queries)
      lse[head * p.queries + query] = sum == 0 ? 0.f : (highest[half] + log2f(sum)) * kLn2;
  }
  wait_for_copies();
  __syncthreads();  // nothing is on its way to the tile, and everybody has read it
  store_results(sums, factor[0], factor[1], q_tile, head_of(y, p, head), y, first, p.queries);
}
