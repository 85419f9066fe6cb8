// Gradients, without a sum whose order varies: one kernel over queries, one over keys.
#include "attention/attention_tensor_core.cuh"

__device__ __forceinline__ void scale_all(float (&factors)[TILES][2], float factor) {
#pragma unroll
  for (int t = 0; t < TILES; ++t) factors[t][0] = factors[t][1] = factor;
}

// Σ y·dy of the rows of this warp that this lane has.
__device__ __forceinline__ void row_products(const T* y_tile, const T* dy_tile, float (&sums)[TILES][2]) {
  struct alignas(16) Piece {
    T of[kPiece];
  };
  constexpr int lanes = 32 / kWarpRows, part = DEPTH / lanes;  // of a row
  const int at = (warp_row() + lane() / lanes) * kRow + lane() % lanes * part;
  float sum = 0;
#pragma unroll
  for (int c = 0; c < part; c += kPiece) {
    const Piece y = *(const Piece*)(y_tile + at + c), dy = *(const Piece*)(dy_tile + at + c);
#pragma unroll
    for (int v = 0; v < kPiece; ++v) sum += widen<float>(y.of[v]) * widen<float>(dy.of[v]);
  }
  if (lanes == 2) sum += __shfl_xor_sync(0xffffffffu, sum, 1);
#pragma unroll
  for (int t = 0; t < TILES; ++t)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      sums[t][half] = __shfl_sync(0xffffffffu, sum, (16 * t + 8 * half + lane_row()) * lanes);
}

// dq = Σ ds·k·scale; and for the other kernel, Σ y·dy of each query.
extern "C" __global__ void __launch_bounds__(kThreads)
    attention_grad_queries(Problem p, Operand q, Operand k, Operand v, Operand y, Operand dy, const float* lse,
                           Operand dq, float* means) {
  begin_kernel();
  extern __shared__ __align__(16) char memory[];
  T* q_tile = (T*)memory;
  T* dy_tile = q_tile + kOuterTile;
  T* stages = dy_tile + kOuterTile;     // twice a tile of keys and one of values
  T* y_tile = stages + 2 * kInnerTile;  // before that
  const i64 head = blockIdx.x % p.heads;
  const i64 first = ((p.queries + kRows - 1) / kRows - 1 - blockIdx.x / p.heads) * kRows;
  const T *k_head = head_of(k, p, head), *v_head = head_of(v, p, head);
  const auto fetch = [&](i64 key) {
    T* stage = stages + key / INNER % 2 * (2 * kInnerTile);
    copy_tile<INNER>(stage, k_head, k, key, p.keys);
    copy_tile<INNER>(stage + kInnerTile, v_head, v, key, p.keys);
    end_copies();
  };
  copy_tile<kRows>(q_tile, head_of(q, p, head), q, first, p.queries);
  copy_tile<kRows>(dy_tile, head_of(dy, p, head), dy, first, p.queries);
  copy_tile<kRows>(y_tile, head_of(y, p, head), y, first, p.queries);
  fetch(0);
  const i64 row = first + warp_row();
  float logs[TILES][2], mean[TILES][2];
  wait_for_copies();
  __syncthreads();
  row_products(y_tile, dy_tile, mean);
#pragma unroll
  for (int t = 0; t < TILES; ++t)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 query = row + 16 * t + 8 * half + lane_row();
      logs[t][half] = query < p.queries ? lse[head * p.queries + query] * kLog2E : 0.f;
      if (lane() % 4 == 0 && query < p.queries) means[head * p.queries + query] = mean[t][half];
    }
  float sums[TILES][DEPTH / 8][4];
  clear(sums);
  const float scale = (float)p.scale * kLog2E;
  const i64 end = keys_seen(least(first + kRows, p.queries) - 1, p), warp_end = keys_seen(row + kWarpRows - 1, p);
  for (i64 key = 0; key < end; key += INNER) {
    const T *k_tile = stages + key / INNER % 2 * (2 * kInnerTile), *v_tile = k_tile + kInnerTile;
    wait_for_copies();
    __syncthreads();
    if (key + INNER < end) fetch(key + INNER);
    const int live = clamp_to(warp_end - key, INNER);
    float s[TILES][INNER / 8][4], ds[TILES][INNER / 8][4];
    clear(s);
    clear(ds);
    multiply_rows<INNER>(s, q_tile, k_tile, 0, live);
    multiply_rows<INNER>(ds, dy_tile, v_tile, 0, live);
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int seen = clamp_to(keys_seen(row + 16 * t + 8 * half + lane_row(), p) - key, INNER) - lane_column();
#pragma unroll
        for (int j = 0; j < INNER / 8; ++j)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            gradient_scores(s[t][j][2 * half + i], ds[t][j][2 * half + i], scale, logs[t][half], mean[t][half],
                            8 * j + i < seen);
      }
    add_rows<INNER>(sums, ds, k_tile, 0, live);
  }
  wait_for_copies();
  __syncthreads();
  float factors[TILES][2];
  scale_all(factors, (float)p.scale);
  store_results(sums, factors, q_tile, head_of(dq, p, head), dq, first, p.queries);
}

// dk = Σ ds·q·scale and dv = Σ p·dy over the queries. Keys are the rows here. Queries past the end are zeros and add
// nothing; keys past the end give rows that nobody stores.
extern "C" __global__ void __launch_bounds__(kThreads)
    attention_grad_keys(Problem p, Operand q, Operand k, Operand v, Operand dy, const float* lse, const float* means,
                        Operand dk, Operand dv) {
  begin_kernel();
  extern __shared__ __align__(16) char memory[];
  T* k_tile = (T*)memory;
  T* v_tile = k_tile + kOuterTile;
  T* stages = v_tile + kOuterTile;                        // twice a tile of queries and one of the results' gradients
  float* statistics = (float*)(stages + 4 * kInnerTile);  // twice: lse to base 2, means
  const i64 head = blockIdx.x % p.heads, first = blockIdx.x / p.heads * kRows;
  const T *q_head = head_of(q, p, head), *dy_head = head_of(dy, p, head);
  const auto fetch = [&](i64 query) {
    const int which = (int)(query / INNER % 2);
    T* stage = stages + which * (2 * kInnerTile);
    copy_tile<INNER>(stage, q_head, q, query, p.queries);
    copy_tile<INNER>(stage + kInnerTile, dy_head, dy, query, p.queries);
    end_copies();
    for (int i = threadIdx.x; i < INNER; i += kThreads) {
      const i64 at = query + i;
      float* to = statistics + which * (2 * INNER) + i;
      to[0] = at < p.queries ? lse[head * p.queries + at] * kLog2E : 0.f;
      to[INNER] = at < p.queries ? means[head * p.queries + at] : 0.f;
    }
  };
  copy_tile<kRows>(k_tile, head_of(k, p, head), k, first, p.keys);
  copy_tile<kRows>(v_tile, head_of(v, p, head), v, first, p.keys);
  const i64 begin = first_query(first, p) / INNER * INNER, row = first + warp_row();
  if (begin < p.queries) fetch(begin);
  float key_sums[TILES][DEPTH / 8][4], value_sums[TILES][DEPTH / 8][4];
  clear(key_sums);
  clear(value_sums);
  const float scale = (float)p.scale * kLog2E;
  for (i64 query = begin; query < p.queries; query += INNER) {
    const int which = (int)(query / INNER % 2);
    const T *q_tile = stages + which * (2 * kInnerTile), *dy_tile = q_tile + kInnerTile;
    const float *logs = statistics + which * (2 * INNER), *mean = logs + INNER;
    wait_for_copies();
    __syncthreads();
    if (query + INNER < p.queries) fetch(query + INNER);
    const int unseen = clamp_to(first_query(row, p) - query, INNER);  // queries before all keys of this warp
    if (unseen == INNER) continue;
    float s[TILES][INNER / 8][4], ds[TILES][INNER / 8][4];
    clear(s);
    clear(ds);
    multiply_rows<INNER>(s, k_tile, q_tile, unseen, INNER);
    multiply_rows<INNER>(ds, v_tile, dy_tile, unseen, INNER);
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int seen_from =
            clamp_to(first_query(row + 16 * t + 8 * half + lane_row(), p) - query, INNER) - lane_column();
#pragma unroll
        for (int j = 0; j < INNER / 8; ++j)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int column = 8 * j + lane_column() + i;
            gradient_scores(s[t][j][2 * half + i], ds[t][j][2 * half + i], scale, logs[column], mean[column],
                            8 * j + i >= seen_from);
          }
      }
    add_rows<INNER>(value_sums, s, dy_tile, unseen, INNER);
    add_rows<INNER>(key_sums, ds, q_tile, unseen, INNER);
  }
  wait_for_copies();
  __syncthreads();
  float factors[TILES][2];
  scale_all(factors, (float)p.scale);
  store_results(key_sums, factors, k_tile, head_of(dk, p, head), dk, first, p.keys);
  scale_all(factors, 1.f);
  store_results(value_sums, factors, v_tile, head_of(dv, p, head), dv, first, p.keys);
}
