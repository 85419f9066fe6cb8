// Updates summed by the row they go to, from positions sorted by row (index_sort.cu): y[key, :] += the updates of that
// key. ELEMENT: the type of y; UPDATE: of the updates; VEC columns to a lane where rows lie well, else one; LANES lanes
// to a worker (a power of two). BASE: rows start from what y has, else from zero. RATE: the sum is taken from y after
// multiplication by a rate. DROPOUT: of the updates, before.
//
// Positions come in pieces of equal length, each summed by one worker in order. A row whose positions all lie in one
// piece is written at once. Of others each piece keeps its share, at most two: slot 0 for a row that began in an
// earlier piece, slot 1 for one that begins here and goes on. `join_pieces` adds those. Nothing depends on who comes
// first.
#include "kernels/pack.cuh"
#include "kernels/philox.cuh"

#include "generated.cuh"

typedef ELEMENT T;
typedef UPDATE U;
typedef Wide<T>::type S;

struct Sorted {
  const u32 *keys, *places;
  i64 count, piece, pieces;  // positions; in one piece; pieces
  i64 size, inner;           // rows and columns of y
  const T* rate;             // null: known_rate
  double known_rate;
  Drop drop;
};

// N columns: of a row, or of sums.
template <int N>
struct Columns {
  S at[N];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] = 0;
  }
  template <class From>
  __device__ __forceinline__ void add(const Pack<From, N>& row) {
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] += widen<S>(row.at[i]);
  }
  template <class To>
  __device__ __forceinline__ void store(To* to) const {
    Pack<To, N> row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.at[i] = narrow<To>(at[i]);
    *(Pack<To, N>*)to = row;
  }
  __device__ __forceinline__ void finish(T* row, const Sorted& s) {
#ifdef RATE
    const S rate = s.rate ? widen<S>(*s.rate) : (S)s.known_rate;
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] *= -rate;
#endif
#ifdef BASE
    add(*(const Pack<T, N>*)row);
#endif
    store(row);
  }
};

// What becomes of updates before they are added, as the type they have can hold it.
template <int N>
struct Updates {
#ifdef DROPOUT
  typedef Wide<U>::type V;
  RandomKey key;
  Dropout<V> dropout;

  __device__ __forceinline__ explicit Updates(const Sorted& s)
      : key(random_key(s.drop.seed, s.drop.counter, s.drop.stream)), dropout(s.drop.rate, s.drop.kept) {}
  __device__ __forceinline__ void operator()(Pack<U, N>& row, i64 first) const {
    V values[N];
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = widen<V>(row.at[i]);
    drop_some<N>(values, first, dropout, key);
#pragma unroll
    for (int i = 0; i < N; ++i) row.at[i] = narrow<U>(values[i]);
  }
#else
  __device__ __forceinline__ explicit Updates(const Sorted&) {}
  __device__ __forceinline__ void operator()(Pack<U, N>&, i64) const {}
#endif
};

// Where a share is kept: [piece][slot][columns].
__device__ __forceinline__ S* share_of(const Sorted& s, S* shares, i64 piece, int slot, i64 column) {
  return shares + (piece * 2 + slot) * s.inner + column;
}

template <int N>
__device__ __forceinline__ void sum_piece(const Sorted& s, const U* updates, T* y, S* shares) {
  constexpr int kAhead = N >= 8 ? 4 : 8;  // rows in flight
  const i64 piece = (i64)blockIdx.x * (256 / LANES) + threadIdx.x / LANES, begin = piece * s.piece;
  const i64 column = ((i64)blockIdx.y * LANES + threadIdx.x % LANES) * N;
  if (piece >= s.pieces || column >= s.inner) return;
  const i64 end = begin + s.piece < s.count ? begin + s.piece : s.count;
  const Updates<N> prepared(s);
  y += column;

  u32 key = s.keys[begin];
  bool began_before = begin > 0 && s.keys[begin - 1] == key;
  Columns<N> sum;
  sum.clear();
  const auto finish = [&](bool goes_on) {
    if (key < (u32)s.size) {
      if (began_before || goes_on)
        sum.store(share_of(s, shares, piece, began_before ? 0 : 1, column));
      else
        sum.finish(y + (i64)key * s.inner, s);
    }
    began_before = false;
  };
  for (i64 first = begin; first < end; first += kAhead) {
    u32 keys[kAhead];
    i64 places[kAhead];
    Pack<U, N> rows[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (first + i < end) {
        keys[i] = s.keys[first + i];
        places[i] = (i64)s.places[first + i] * s.inner + column;
        rows[i] = *(const Pack<U, N>*)(updates + places[i]);
      }
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (first + i < end) {
        if (keys[i] != key) {
          finish(false);
          key = keys[i];
          sum.clear();
        }
        prepared(rows[i], places[i]);
        sum.add(rows[i]);
      }
  }
  finish(end < s.count && s.keys[end] == key);
}

// A block looks after the row that begins in its piece and goes on: its workers add equal runs of shares, then the
// first adds those sums in order.
template <int N>
__device__ __forceinline__ void join_piece(const Sorted& s, T* y, S* shares) {
  constexpr int kWorkers = 256 / LANES;
  __shared__ Pack<S, N> sums[256];
  const i64 piece = blockIdx.x, begin = piece * s.piece, end = begin + s.piece;
  if (end >= s.count) return;
  const u32 key = s.keys[end - 1];
  if (s.keys[end] != key || (begin > 0 && s.keys[begin - 1] == key) || key >= (u32)s.size) return;
  // The last piece that begins with this row.
  i64 last = piece + 1, beyond = s.pieces;
  while (beyond - last > 1) {
    const i64 middle = last + (beyond - last) / 2;
    if (s.keys[middle * s.piece] == key)
      last = middle;
    else
      beyond = middle;
  }
  const int lane = threadIdx.x % LANES, worker = threadIdx.x / LANES;
  const i64 column = ((i64)blockIdx.y * LANES + lane) * N;
  const i64 run = (last - piece + kWorkers) / kWorkers, from = piece + worker * run;
  Columns<N> sum;
  sum.clear();
  if (column < s.inner) {
    const i64 to = from + run <= last ? from + run : last + 1;
#pragma unroll 8
    for (i64 p = from; p < to; ++p) sum.add(*(const Pack<S, N>*)share_of(s, shares, p, p == piece ? 1 : 0, column));
  }
  sum.store((S*)(sums + threadIdx.x));
  __syncthreads();
  if (worker != 0 || column >= s.inner) return;
  for (int w = 1; w < kWorkers; ++w) sum.add(sums[w * LANES + lane]);
  sum.finish(y + (i64)key * s.inner + column, s);
}

extern "C" __global__ void __launch_bounds__(256) sum_pieces(Sorted s, const U* updates, T* y, S* shares) {
  begin_kernel();
  sum_piece<VEC>(s, updates, y, shares);
}
extern "C" __global__ void __launch_bounds__(256) join_pieces(Sorted s, T* y, S* shares) {
  begin_kernel();
  join_piece<VEC>(s, y, shares);
}
extern "C" __global__ void __launch_bounds__(256) sum_pieces_singly(Sorted s, const U* updates, T* y, S* shares) {
  begin_kernel();
  sum_piece<1>(s, updates, y, shares);
}
extern "C" __global__ void __launch_bounds__(256) join_pieces_singly(Sorted s, T* y, S* shares) {
  begin_kernel();
  join_piece<1>(s, y, shares);
}
