// Attention and its gradient with ordinary arithmetic, for any type and size of heads: tiles of
// TILE queries and keys in shared memory, 16 × 16 threads, each with RxR scores of a tile.
//   HAS_Y      gradient: the result of attention is given, so that Σ p·dp is Σ y·dy
#include "attention/attention.cuh"

constexpr int kThreads = 256, kR = TILE / 16;
constexpr int kBlocks = DEPTH <= 64 && WIDTH <= 64 ? 2 : 1;  // that share a multiprocessor's registers, at least
constexpr int kPad = 16 / sizeof(W);  // keeps rows in different banks and pieces of 16 bytes aligned
__device__ constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }
constexpr int kDepth = round_up(DEPTH, 16), kWidth = round_up(WIDTH, 16);
constexpr int kDepthRow = kDepth + kPad, kWidthRow = kWidth + kPad, kScoreRow = TILE + kPad;
constexpr int kDepthColumns = kDepth / 16, kWidthColumns = kWidth / 16;  // of a thread

template <class E>
struct alignas(16) Quad {
  E of[4];
};
template <>
struct alignas(8) Quad<bf16> {
  bf16 of[4];
};
template <>
struct alignas(8) Quad<f16> {
  f16 of[4];
};

__device__ __forceinline__ int thread_column() { return threadIdx.x % 16; }
__device__ __forceinline__ int thread_row() { return (int)threadIdx.x / 16 * kR; }  // the first of kR

// Rows [first, first + TILE) of a head, `columns` of them filled and zeros around.
template <int columns, int row>
__device__ __forceinline__ void load_tile(W* to, const T* head, const Operand& operand, i64 first, i64 rows) {
  constexpr int padded = round_up(columns, 16);
  if (operand.aligned && columns % 4 == 0) {
    for (int at = threadIdx.x; at < TILE * padded / 4; at += kThreads) {
      const int r = at / (padded / 4), c = at % (padded / 4) * 4;
      Quad<W> wide = {};
      if (first + r < rows && c < columns) {
        const Quad<T> quad = *(const Quad<T>*)(head + (first + r) * operand.row + c);
#pragma unroll
        for (int v = 0; v < 4; ++v) wide.of[v] = widen<W>(quad.of[v]);
      }
      *(Quad<W>*)(to + r * row + c) = wide;
    }
  } else {
    for (int at = threadIdx.x; at < TILE * padded; at += kThreads) {
      const int r = at / padded, c = at % padded;
      const bool there = first + r < rows && c < columns;
      to[r * row + c] = there ? widen<W>(head[(first + r) * operand.row + c * operand.column]) : (W)0;
    }
  }
}

// The columns of this thread: quads where they come out even, as wide loads are cheaper.
template <int count>
__device__ __forceinline__ int column_of(int j) {
  return count % 4 == 0 ? j / 4 * 64 + thread_column() * 4 + j % 4 : j * 16 + thread_column();
}
template <int count>
__device__ __forceinline__ void load_columns(const W* row, W (&to)[count]) {
  if (count % 4 == 0) {
#pragma unroll
    for (int j = 0; j < count; j += 4) {
      const Quad<W> quad = *(const Quad<W>*)(row + column_of<count>(j));
#pragma unroll
      for (int v = 0; v < 4; ++v) to[j + v] = quad.of[v];
    }
  } else {
#pragma unroll
    for (int j = 0; j < count; ++j) to[j] = row[column_of<count>(j)];
  }
}

// scores[i][j] = rows a[thread_row + i] · b[thread_column + 16 j] over `columns`.
template <int columns, int row>
__device__ __forceinline__ void multiply_tiles(const W* a, const W* b, W (&scores)[kR][kR]) {
#pragma unroll
  for (int i = 0; i < kR; ++i)
#pragma unroll
    for (int j = 0; j < kR; ++j) scores[i][j] = 0;
#pragma unroll 4
  for (int c = 0; c < columns; c += 4) {
    Quad<W> left[kR], right[kR];
#pragma unroll
    for (int i = 0; i < kR; ++i) left[i] = *(const Quad<W>*)(a + (thread_row() + i) * row + c);
#pragma unroll
    for (int j = 0; j < kR; ++j) right[j] = *(const Quad<W>*)(b + (thread_column() + 16 * j) * row + c);
#pragma unroll
    for (int v = 0; v < 4; ++v)
#pragma unroll
      for (int i = 0; i < kR; ++i)
#pragma unroll
        for (int j = 0; j < kR; ++j) scores[i][j] += left[i].of[v] * right[j].of[v];
  }
}

__device__ __forceinline__ void keep_scores(W* to, const W (&scores)[kR][kR]) {
#pragma unroll
  for (int i = 0; i < kR; ++i)
#pragma unroll
    for (int j = 0; j < kR; ++j) to[(thread_row() + i) * kScoreRow + thread_column() + 16 * j] = scores[i][j];
}

// sums[i][·] += Σ scores[thread_row + i][k] · tile[k][·]
template <int count, int row>
__device__ __forceinline__ void add_rows(const W* scores, const W* tile, W (&sums)[kR][count]) {
#pragma unroll 2
  for (int k = 0; k < TILE; k += 4) {
    Quad<W> left[kR];
#pragma unroll
    for (int i = 0; i < kR; ++i) left[i] = *(const Quad<W>*)(scores + (thread_row() + i) * kScoreRow + k);
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      W right[count];
      load_columns<count>(tile + (k + v) * row, right);
#pragma unroll
      for (int i = 0; i < kR; ++i)
#pragma unroll
        for (int j = 0; j < count; ++j) sums[i][j] += left[i].of[v] * right[j];
    }
  }
}
// sums[i][·] += Σ scores[k][thread_row + i] · tile[k][·]
template <int count, int row>
__device__ __forceinline__ void add_columns(const W* scores, const W* tile, W (&sums)[kR][count]) {
  struct alignas(kR == 1 ? sizeof(W) : kR == 2 ? 8 : 16) Rows {  // read at once
    W of[kR];
  };
#pragma unroll 4
  for (int k = 0; k < TILE; ++k) {
    const Rows left = *(const Rows*)(scores + k * kScoreRow + thread_row());
    W right[count];
    load_columns<count>(tile + k * row, right);
#pragma unroll
    for (int i = 0; i < kR; ++i)
#pragma unroll
      for (int j = 0; j < count; ++j) sums[i][j] += left.of[i] * right[j];
  }
}

template <int columns, int count>
__device__ __forceinline__ void store_rows(T* head, const Operand& operand, i64 first, i64 rows,
                                           const W (&sums)[kR][count]) {
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const i64 row = first + thread_row() + i;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < count; ++j)
      if (column_of<count>(j) < columns)
        head[row * operand.row + column_of<count>(j) * operand.column] = narrow<T>(sums[i][j]);
  }
}
template <int count>
__device__ __forceinline__ void clear(W (&sums)[kR][count]) {
#pragma unroll
  for (int i = 0; i < kR; ++i)
#pragma unroll
    for (int j = 0; j < count; ++j) sums[i][j] = 0;
}

// Over the 16 threads that share rows.
__device__ __forceinline__ W row_sum(W x) {
#pragma unroll
  for (int d = 8; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
__device__ __forceinline__ W row_max(W x) {
#pragma unroll
  for (int d = 8; d > 0; d >>= 1) {
    const W y = __shfl_xor_sync(0xffffffffu, x, d);
    x = y > x || y != y ? y : x;
  }
  return x;
}

// The tile of queries or keys, and the head, that this block has: those with the most work first.
__device__ __forceinline__ i64 tile_of_queries(const Problem& p) {
  return ((p.queries + TILE - 1) / TILE - 1 - blockIdx.x / p.heads) * TILE;
}
__device__ __forceinline__ i64 tile_of_keys(const Problem& p) { return blockIdx.x / p.heads * TILE; }

// y = softmax(q·kᵀ·scale)·v, and lse, the logarithms of the sums of exponentials; 0 for a query that sees no key.
extern "C" __global__ void __launch_bounds__(kThreads)
    attention(Problem p, Operand q, Operand k, Operand v, Operand y, W* lse) {
  begin_kernel();
  extern __shared__ __align__(16) char memory[];
  W* q_tile = (W*)memory;
  W* k_tile = q_tile + TILE * kDepthRow;
  W* v_tile = k_tile + TILE * kDepthRow;
  W* scores = v_tile + TILE * kWidthRow;
  const i64 head = blockIdx.x % p.heads, first = tile_of_queries(p);
  const T *k_head = head_of(k, p, head), *v_head = head_of(v, p, head);
  load_tile<DEPTH, kDepthRow>(q_tile, head_of(q, p, head), q, first, p.queries);
  W sums[kR][kWidthColumns], highest[kR], total[kR];
  clear(sums);
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    highest[i] = -infinity();
    total[i] = 0;
  }
  const i64 end = keys_seen(least(first + TILE, p.queries) - 1, p);
  for (i64 key = 0; key < end; key += TILE) {
    __syncthreads();
    load_tile<DEPTH, kDepthRow>(k_tile, k_head, k, key, p.keys);
    load_tile<WIDTH, kWidthRow>(v_tile, v_head, v, key, p.keys);
    __syncthreads();
    W s[kR][kR];
    multiply_tiles<kDepth, kDepthRow>(q_tile, k_tile, s);
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      W high = -infinity();
#pragma unroll
      for (int j = 0; j < kR; ++j) {
        const bool seen = sees(first + thread_row() + i, key + thread_column() + 16 * j, p);
        s[i][j] = seen ? s[i][j] * (W)p.scale : -infinity();
        high = s[i][j] > high || s[i][j] != s[i][j] ? s[i][j] : high;
      }
      high = row_max(high);
      high = highest[i] > high || highest[i] != highest[i] ? highest[i] : high;
      const W shift = high == -infinity() ? (W)0 : high, shrink = exp(highest[i] - shift);
      W sum = 0;
#pragma unroll
      for (int j = 0; j < kR; ++j) {
        s[i][j] = exp(s[i][j] - shift);
        sum += s[i][j];
      }
      total[i] = total[i] * shrink + row_sum(sum);
      highest[i] = high;
#pragma unroll
      for (int j = 0; j < kWidthColumns; ++j) sums[i][j] *= shrink;
    }
    keep_scores(scores, s);
    __syncwarp();  // the threads of a row are of one warp
    add_rows<kWidthColumns, kWidthRow>(scores, v_tile, sums);
  }
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const bool seen = total[i] != 0;
#pragma unroll
    for (int j = 0; j < kWidthColumns; ++j) sums[i][j] = seen ? sums[i][j] / total[i] : (W)0;
    const i64 query = first + thread_row() + i;
    if (thread_column() == 0 && query < p.queries)
      lse[head * p.queries + query] = seen ? highest[i] + log(total[i]) : (W)0;
  }
  store_rows<WIDTH>(head_of(y, p, head), y, first, p.queries, sums);
}

// ---- gradients

// p = exp(s - lse) where a query looks, and ds = p·(dp - mean)·scale, of one tile.
__device__ __forceinline__ void gradient_scores(const Problem& p, const W* q_tile, const W* k_tile, const W* dy_tile,
                                                const W* v_tile, i64 query, i64 key, const W (&lse)[kR],
                                                const W (&mean)[kR], W (&weights)[kR][kR], W (&ds)[kR][kR]) {
  multiply_tiles<kDepth, kDepthRow>(q_tile, k_tile, weights);
  multiply_tiles<kWidth, kWidthRow>(dy_tile, v_tile, ds);
#pragma unroll
  for (int i = 0; i < kR; ++i)
#pragma unroll
    for (int j = 0; j < kR; ++j) {
      const i64 at = query + thread_row() + i;
      const bool seen = at < p.queries && sees(at, key + thread_column() + 16 * j, p);
      weights[i][j] = seen ? exp(weights[i][j] * (W)p.scale - lse[i]) : (W)0;
      ds[i][j] = weights[i][j] * (ds[i][j] - mean[i]);
    }
}

__device__ __forceinline__ void load_statistics(const W* from, i64 head, i64 query, const Problem& p, W (&to)[kR]) {
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const i64 at = query + thread_row() + i;
    to[i] = at < p.queries ? from[head * p.queries + at] : (W)0;
  }
}

// dq = Σ ds·k; and for the other kernel, Σ p·dp of each query.
extern "C" __global__ void __launch_bounds__(kThreads)
    attention_grad_queries(Problem p, Operand q, Operand k, Operand v, Operand y, Operand dy, const W* lse, Operand dq,
                           W* means) {
  begin_kernel();
  extern __shared__ __align__(16) char memory[];
  W* q_tile = (W*)memory;
  W* k_tile = q_tile + TILE * kDepthRow;
  W* dy_tile = k_tile + TILE * kDepthRow;
  W* v_tile = dy_tile + TILE * kWidthRow;
  W* scores = v_tile + TILE * kWidthRow;
  const i64 head = blockIdx.x % p.heads, first = tile_of_queries(p);
  const T *k_head = head_of(k, p, head), *v_head = head_of(v, p, head);
  load_tile<DEPTH, kDepthRow>(q_tile, head_of(q, p, head), q, first, p.queries);
  load_tile<WIDTH, kWidthRow>(dy_tile, head_of(dy, p, head), dy, first, p.queries);
  if (HAS_Y) load_tile<WIDTH, kWidthRow>(v_tile, head_of(y, p, head), y, first, p.queries);
  W sums[kR][kDepthColumns], logs[kR], mean[kR], weights[kR][kR], ds[kR][kR];
  clear(sums);
  load_statistics(lse, head, first, p, logs);
#pragma unroll
  for (int i = 0; i < kR; ++i) mean[i] = 0;
  const i64 end = keys_seen(least(first + TILE, p.queries) - 1, p);
  __syncthreads();
  if (HAS_Y) {
#pragma unroll
    for (int i = 0; i < kR; ++i)
      for (int c = thread_column(); c < WIDTH; c += 16)
        mean[i] += dy_tile[(thread_row() + i) * kWidthRow + c] * v_tile[(thread_row() + i) * kWidthRow + c];
  } else {
    for (i64 key = 0; key < end; key += TILE) {
      __syncthreads();
      load_tile<DEPTH, kDepthRow>(k_tile, k_head, k, key, p.keys);
      load_tile<WIDTH, kWidthRow>(v_tile, v_head, v, key, p.keys);
      __syncthreads();
      const W none[kR] = {};
      gradient_scores(p, q_tile, k_tile, dy_tile, v_tile, first, key, logs, none, weights, ds);
#pragma unroll
      for (int i = 0; i < kR; ++i)
#pragma unroll
        for (int j = 0; j < kR; ++j) mean[i] += ds[i][j];
    }
  }
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    mean[i] = row_sum(mean[i]);
    const i64 query = first + thread_row() + i;
    if (thread_column() == 0 && query < p.queries) means[head * p.queries + query] = mean[i];
  }
  for (i64 key = 0; key < end; key += TILE) {
    __syncthreads();
    load_tile<DEPTH, kDepthRow>(k_tile, k_head, k, key, p.keys);
    load_tile<WIDTH, kWidthRow>(v_tile, v_head, v, key, p.keys);
    __syncthreads();
    gradient_scores(p, q_tile, k_tile, dy_tile, v_tile, first, key, logs, mean, weights, ds);
    keep_scores(scores, ds);
    __syncwarp();
    add_rows<kDepthColumns, kDepthRow>(scores, k_tile, sums);
  }
#pragma unroll
  for (int i = 0; i < kR; ++i)
#pragma unroll
    for (int j = 0; j < kDepthColumns; ++j) sums[i][j] *= (W)p.scale;
  store_rows<DEPTH>(head_of(dq, p, head), dq, first, p.queries, sums);
}

// dk = Σ ds·q and dv = Σ p·dy over the queries.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    attention_grad_keys(Problem p, Operand q, Operand k, Operand v, Operand dy, const W* lse, const W* means,
                        Operand dk, Operand dv) {
  begin_kernel();
  extern __shared__ __align__(16) char memory[];
  W* q_tile = (W*)memory;
  W* k_tile = q_tile + TILE * kDepthRow;
  W* dy_tile = k_tile + TILE * kDepthRow;
  W* v_tile = dy_tile + TILE * kWidthRow;
  W* weights_tile = v_tile + TILE * kWidthRow;
  W* ds_tile = weights_tile + TILE * kScoreRow;
  const i64 head = blockIdx.x % p.heads, first = tile_of_keys(p);
  const T *q_head = head_of(q, p, head), *dy_head = head_of(dy, p, head);
  load_tile<DEPTH, kDepthRow>(k_tile, head_of(k, p, head), k, first, p.keys);
  load_tile<WIDTH, kWidthRow>(v_tile, head_of(v, p, head), v, first, p.keys);
  W key_sums[kR][kDepthColumns], value_sums[kR][kWidthColumns];
  clear(key_sums);
  clear(value_sums);
  for (i64 query = first_query(first, p) / TILE * TILE; query < p.queries; query += TILE) {
    __syncthreads();
    load_tile<DEPTH, kDepthRow>(q_tile, q_head, q, query, p.queries);
    load_tile<WIDTH, kWidthRow>(dy_tile, dy_head, dy, query, p.queries);
    W logs[kR], mean[kR], weights[kR][kR], ds[kR][kR];
    load_statistics(lse, head, query, p, logs);
    load_statistics(means, head, query, p, mean);
    __syncthreads();
    gradient_scores(p, q_tile, k_tile, dy_tile, v_tile, query, first, logs, mean, weights, ds);
    keep_scores(weights_tile, weights);
    keep_scores(ds_tile, ds);
    __syncthreads();
    add_columns<kWidthColumns, kWidthRow>(weights_tile, dy_tile, value_sums);
    add_columns<kDepthColumns, kDepthRow>(ds_tile, q_tile, key_sums);
  }
#pragma unroll
  for (int i = 0; i < kR; ++i)
#pragma unroll
    for (int j = 0; j < kDepthColumns; ++j) key_sums[i][j] *= (W)p.scale;
  store_rows<DEPTH>(head_of(dk, p, head), dk, first, p.keys, key_sums);
  store_rows<WIDTH>(head_of(dv, p, head), dv, first, p.keys, value_sums);
}
