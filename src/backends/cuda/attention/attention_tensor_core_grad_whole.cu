// The whole gradient of a head by one block, which has all its keys, so that scores are made
// once: a warp has TILES tiles of 16 keys, whose gradients it sums up in registers while the queries pass by, INNER at
// a time. It leaves ds in shared memory, and after a barrier the warps share the product ds·k. No sum's order varies.
//   T          bf16
//   TILES      at most 2
//   INNER      at most kThreads
//   SLOTS      groups of INNER queries in memory, at least 3
//   COLUMNS    of 16 rows of ds·k that a warp makes at a time
#include "attention/attention_tensor_core.cuh"

constexpr int kSlot = 3 * kInnerTile;  // q, dy, y
constexpr int kScoreRow = INNER + 8;   // ds: a row for each key
constexpr int kScoreTile = kRows * kScoreRow;
constexpr int kScratch = 16 * (COLUMNS + kPiece);

struct alignas(8) Statistics {
  float log, mean;  // lse to base 2, Σ y·dy
};
struct alignas(16) TwoStatistics {
  Statistics of[2];
};

__device__ __forceinline__ int warp() { return (int)threadIdx.x / 32; }
// Which tiles of keys this warp has, early ones first. Fewer queries see the later ones: who has more of one round has
// less of the next.
__device__ __forceinline__ int key_tile(int t) { return t % 2 ? WARPS * (t + 1) - 1 - warp() : WARPS * t + warp(); }
// The first query that sees this key, or a number below 0.
__device__ __forceinline__ int seen_from(int key, const Problem& p) {
  return CAUSAL ? key + (int)p.queries - (int)p.keys : -1;
}
// Tiles of keys that some of these queries see.
__device__ __forceinline__ int tiles_seen(int first, int count, const Problem& p) {
  const int end = min(first + count, (int)p.queries) - seen_from(0, p);
  return first >= (int)p.queries ? 0 : ((CAUSAL ? max(min(end, (int)p.keys), 0) : (int)p.keys) + 15) / 16;
}
// Tiles that those of the groups before see.
__device__ __forceinline__ int tiles_before(int query, const Problem& p) {
  return query == 0 ? 0 : tiles_seen(query - INNER, INNER, p);
}

// results += this warp's rows of a tile, of its first tiles, · 16 rows of right
template <int tiles>
__device__ __forceinline__ void multiply_keys(float (&results)[TILES][2][4], const T* tile, const T* right) {
#pragma unroll
  for (int k = 0; k < DEPTH; k += kStep) {
    u32 b[4];
    load_right(b, right, k);
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      u32 a[4];
      load_left(a, tile + 16 * key_tile(t) * kRow, k);
      Tensor<T>::multiply(results[t][0], a, b[0], b[1]);
      Tensor<T>::multiply(results[t][1], a, b[2], b[3]);
    }
  }
}

struct KeyGradients {
  const T *k_tile, *v_tile;
  float key_sums[TILES][DEPTH / 8][4], value_sums[TILES][DEPTH / 8][4];

  // What 16 queries add for the first tiles of this warp; ds for them goes to its rows of `scores`.
  template <int tiles>
  __device__ __forceinline__ void add(const T* q, const T* dy, const Statistics* statistics, T* scores, int query,
                                      const Problem& p) {
    float s[TILES][2][4], ds[TILES][2][4];
    clear(s);
    clear(ds);
    multiply_keys<tiles>(s, k_tile, q);
    multiply_keys<tiles>(ds, v_tile, dy);
    const float scale = (float)p.scale * kLog2E;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const TwoStatistics two = *(const TwoStatistics*)(statistics + 8 * j + lane_column());
#pragma unroll
      for (int t = 0; t < tiles; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int key = 16 * key_tile(t) + 8 * half + lane_row();
          const int unseen = (key < (int)p.keys ? seen_from(key, p) - query : 16) - lane_column();
#pragma unroll
          for (int i = 0; i < 2; ++i)
            gradient_scores(s[t][j][2 * half + i], ds[t][j][2 * half + i], scale, two.of[i].log, two.of[i].mean,
                            8 * j + i >= unseen);
        }
    }
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      u32 a[4];
      Tensor<T>::operand(a, ds[t], 0);
#pragma unroll
      for (int m = 0; m < 4; ++m)
        *(u32*)(scores + (16 * key_tile(t) + m % 2 * 8 + lane_row()) * kScoreRow + m / 2 * 8 + lane_column()) = a[m];
    }
    add_rows<16, tiles>(value_sums, s, dy, 0, 16);
    add_rows<16, tiles>(key_sums, ds, q, 0, 16);
  }
};

// COLUMNS columns of ds·k for 16 queries: the sum over the first tiles of keys, by turns in two accumulators.
__device__ __forceinline__ void multiply_scores(float (&sums)[COLUMNS / 8][4], const T* scores, const T* k_tile,
                                                int tiles) {
  float parts[2][COLUMNS / 8][4] = {};
  const auto take = [&](float(&part)[COLUMNS / 8][4], int t) {
    u32 a[4];
    load_transposed(a, scores + (16 * t + lane() / 16 * 8 + lane() % 8) * kScoreRow + lane() / 8 % 2 * 8);
#pragma unroll
    for (int j = 0; j < COLUMNS; j += 16) {
      u32 b[4];
      Tensor<T>::load_columns(b, k_tile, 16 * t, j);
      Tensor<T>::multiply(part[j / 8], a, b[0], b[1]);
      Tensor<T>::multiply(part[j / 8 + 1], a, b[2], b[3]);
    }
  };
  int t = 0;
  for (; t + 4 <= tiles; t += 4)
#pragma unroll
    for (int u = 0; u < 4; ++u) take(parts[u % 2], t + u);
  for (; t < tiles; ++t) take(parts[0], t);
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[j][i] = parts[0][j][i] + parts[1][j][i];
}

// Σ y·dy of INNER queries.
__device__ __forceinline__ void note_means(Statistics* statistics, const T* slot) {
  struct alignas(16) Piece {
    T of[kPiece];
  };
  constexpr int lanes = DEPTH / kPiece;
  for (int r = threadIdx.x / lanes; r < INNER; r += kThreads / lanes) {
    const T* at = slot + kInnerTile + r * kRow + threadIdx.x % lanes * kPiece;
    const Piece dy = *(const Piece*)at, y = *(const Piece*)(at + kInnerTile);
    float sum = 0;
#pragma unroll
    for (int v = 0; v < kPiece; ++v) sum += widen<float>(y.of[v]) * widen<float>(dy.of[v]);
#pragma unroll
    for (int d = lanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (threadIdx.x % lanes == 0) statistics[r].mean = sum;
  }
}

// dq = Σ ds·k·scale over the keys, dk = Σ ds·q·scale and dv = Σ p·dy over the queries. Queries past the end are zeros
// and add nothing; no query sees a key past the end.
extern "C" __global__ void __launch_bounds__(kThreads)
    attention_grad(Problem p, Operand q, Operand k, Operand v, Operand y, Operand dy, const float* lse, Operand dq,
                   Operand dk, Operand dv) {
  let_next_begin();
  extern __shared__ __align__(16) char memory[];
  T* k_tile = (T*)memory;
  T* v_tile = k_tile + kOuterTile;
  T* slots = v_tile + kOuterTile;
  T* scores = slots + SLOTS * kSlot;  // twice
  T* scratch = scores + 2 * kScoreTile;
  Statistics* statistics = (Statistics*)(scratch + WARPS * kScratch);  // twice
  const int head = blockIdx.x;
  // Pointers that would take registers from the sums.
  __shared__ T *q_head, *k_head, *v_head, *y_head, *dy_head, *dq_head, *dk_head, *dv_head;
  if (threadIdx.x == 0) {
    q_head = head_of(q, p, head);
    k_head = head_of(k, p, head);
    v_head = head_of(v, p, head);
    y_head = head_of(y, p, head);
    dy_head = head_of(dy, p, head);
    dq_head = head_of(dq, p, head);
    dk_head = head_of(dk, p, head);
    dv_head = head_of(dv, p, head);
  }
  wait_for_earlier();
  __syncthreads();
  // A group of queries, and the keys that it sees and those before it do not.
  const auto fetch = [&](int query) {
    if (query < (int)p.queries) {
      T* slot = slots + query / INNER % SLOTS * kSlot;
      copy_tile<INNER>(slot, q_head, q, query, p.queries);
      copy_tile<INNER>(slot + kInnerTile, dy_head, dy, query, p.queries);
      copy_tile<INNER>(slot + 2 * kInnerTile, y_head, y, query, p.queries);
      const int begin = 16 * tiles_before(query, p), count = 16 * tiles_seen(query, INNER, p) - begin;
      copy_rows(k_tile + begin * kRow, k_head, k, begin, p.keys, count);
      copy_rows(v_tile + begin * kRow, v_head, v, begin, p.keys, count);
    }
    end_copies();
  };
  const auto log_of = [&](int query) { return query < (int)p.queries ? lse[head * p.queries + query] * kLog2E : 0.f; };
#pragma unroll 1
  for (int s = 0; s < SLOTS; ++s) fetch(s * INNER);
  for (int i = threadIdx.x; i < 2 * INNER; i += kThreads) statistics[i].log = log_of(i);
  wait_for_copies<SLOTS - 2>();
  __syncthreads();
  note_means(statistics, slots);
  __syncthreads();
  KeyGradients mine = {k_tile, v_tile};
  clear(mine.key_sums);
  clear(mine.value_sums);
  for (int query = 0; query < (int)p.queries; query += INNER) {
    const int next = query + INNER;
    const int group = query / INNER, turn = group % 2;
    const T *q_tile = slots + group % SLOTS * kSlot, *dy_tile = q_tile + kInnerTile;
#pragma unroll 1
    for (int c = 0; c < INNER; c += 16) {
      const int seen = tiles_seen(query + c, 16, p);
      const T *q_rows = q_tile + c * kRow, *dy_rows = dy_tile + c * kRow;
      const Statistics* at = statistics + turn * INNER + c;
      T* to = scores + turn * kScoreTile + c;
      if (key_tile(TILES - 1) < seen)
        mine.add<TILES>(q_rows, dy_rows, at, to, query + c, p);
      else if (key_tile(0) < seen)
        mine.add<1>(q_rows, dy_rows, at, to, query + c, p);
    }
    if (next < (int)p.queries) note_means(statistics + (1 - turn) * INNER, slots + (group + 1) % SLOTS * kSlot);
    wait_for_copies<SLOTS - 3>();
    __syncthreads();
    fetch(query + SLOTS * INNER);
    const float log = log_of(next + INNER + (int)threadIdx.x % INNER);  // in flight meanwhile
    for (int share = warp(); share < INNER / 16 * (DEPTH / COLUMNS); share += WARPS) {
      const int row = share / (DEPTH / COLUMNS) * 16, column = share % (DEPTH / COLUMNS) * COLUMNS;
      float sums[COLUMNS / 8][4];
      multiply_scores(sums, scores + turn * kScoreTile + row, k_tile + column, tiles_seen(query + row, 16, p));
      store_rows<COLUMNS>(sums, (float)p.scale, (float)p.scale, scratch + warp() * kScratch,
                          dq_head + column * dq.column, dq, query + row, p.queries);
    }
    if (threadIdx.x < INNER) statistics[turn * INNER + threadIdx.x].log = log;
  }
#pragma unroll
  for (int t = 0; t < TILES; ++t) {
    const int row = 16 * key_tile(t);
    T* rows = v_tile + row * kRow;  // nobody else uses them
    store_rows<DEPTH>(mine.key_sums[t], (float)p.scale, (float)p.scale, rows, dk_head, dk, row, p.keys);
    store_rows<DEPTH>(mine.value_sums[t], 1.f, 1.f, rows, dv_head, dv, row, p.keys);
  }
}
