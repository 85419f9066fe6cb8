// Generated groups: what all of them share. The text that follows (groups_text.cpp) has a structure for each group: its
// operands, how many elements a thread takes at once (kWidth), and these functions, which here are called in order:
//   kept(index, offsets)      where an element of the space (or of its kept axes) lies in each operand
//   reduced(index, offsets)   adds what the reduced axes contribute
//   load(offsets, in)         kWidth neighbours of every input
//   formula(in, v, results)   one element
//   store(offsets, results)   the outputs that are not reduced
//   finish(number, offsets, v, total)   one reduced output
// All blocks have kThreads threads.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/extents.cuh"
#include "kernels/formula.cuh"
#include "kernels/last_block.cuh"
#include "kernels/pack.cuh"

#define kThreads 256

// Operators of reductions, as backend::Reduce numbers them.
enum { kSum = 1, kProd = 2, kMax = 3, kMin = 4 };
__device__ __forceinline__ float fold(int op, float a, float b) {
  return op == kSum ? a + b : op == kProd ? a * b : op == kMax ? p_max(a, b) : p_min(a, b);
}
__device__ __forceinline__ double fold(int op, double a, double b) {
  return op == kSum ? a + b : op == kProd ? a * b : op == kMax ? p_max(a, b) : p_min(a, b);
}
__device__ __forceinline__ i64 fold(int op, i64 a, i64 b) {
  return op == kSum ? p_add(a, b) : op == kProd ? p_mul(a, b) : op == kMax ? p_max(a, b) : p_min(a, b);
}
template <class W>
struct Neutral {
  static __device__ __forceinline__ W of(int op) {
    W infinity = (W)__uint_as_float(0x7f800000u);
    return op == kSum ? (W)0 : op == kProd ? (W)1 : op == kMax ? -infinity : infinity;
  }
};
template <>
struct Neutral<i64> {
  static __device__ __forceinline__ i64 of(int op) {
    return op == kSum ? 0 : op == kProd ? 1 : op == kMax ? -9223372036854775807LL - 1 : 9223372036854775807LL;
  }
};

// What results of many elements are kept in: a few are folded in float, the folds of those in double.
template <class W>
struct Total {
  typedef double type;
};
template <>
struct Total<i64> {
  typedef i64 type;
};
constexpr int kFolds = 16;  // steps of a thread before its floats go into its totals

// ---- without reductions

template <class G>
__device__ __forceinline__ void run_flat(const G& g, u32 block) {
  typedef typename G::Index Index;
  Index first = (Index)block * (kThreads * G::kUnroll) + threadIdx.x;
  typename G::In in[G::kUnroll];
  typename G::Offset at[G::kUnroll][G::kPlaces];
#pragma unroll
  for (int u = 0; u < G::kUnroll; ++u) {
    Index unit = first + u * kThreads;
    if (unit >= g.units) break;
    g.kept(unit * G::kWidth, at[u]);
    g.load(unit * G::kWidth, at[u], in[u]);
  }
#pragma unroll
  for (int u = 0; u < G::kUnroll; ++u) {
    Index unit = first + u * kThreads;
    if (unit >= g.units) break;
    typename G::Number results[G::kWidth][G::kResults];
#pragma unroll
    for (int v = 0; v < G::kWidth; ++v) g.formula(in[u], v, results[v]);
    g.store(unit * G::kWidth, at[u], results);
  }
}

// ---- with reductions

// One step of a thread: kUnroll times kWidth elements, loaded before the first is used.
template <class G, class Fold>
__device__ __forceinline__ void step(const G& g, const typename G::Offset* base, typename G::Index first,
                                     typename G::Index stride, typename G::Index end, Fold fold_in) {
  typedef typename G::Index Index;
  typename G::In in[G::kUnroll];
  typename G::Offset at[G::kUnroll][G::kPlaces];
#pragma unroll
  for (int u = 0; u < G::kUnroll; ++u) {
    Index unit = first + u * stride;
    if (unit >= end) break;
#pragma unroll
    for (int p = 0; p < G::kPlaces; ++p) at[u][p] = base[p];
    g.reduced(unit * G::kReducedWidth, at[u]);
    g.load(0, at[u], in[u]);
  }
#pragma unroll
  for (int u = 0; u < G::kUnroll; ++u) {
    if (first + u * stride >= end) break;
    typename G::Number results[G::kWidth][G::kResults];
#pragma unroll
    for (int v = 0; v < G::kWidth; ++v) g.formula(in[u], v, results[v]);
    fold_in(results);
    g.store(0, at[u], results);
  }
}

// Totals of output `column` of the tile from slice s lie at partials[(s * columns + column)]; `columns` of all tiles.
template <class G>
__device__ __forceinline__ void fold_slices(const G& g, u64 first, u32 count, void* shared) {
  typedef typename Total<typename G::Number>::type T;
  T* sums = (T*)shared;
  u32 parts = kThreads / count;
  parts = parts < 1 ? 1 : parts > 16 ? 16 : parts;
#pragma unroll
  for (int k = 0; k < G::kReduced; ++k) {
    const T* partials = (const T*)g.scratch + (u64)k * g.slices * g.columns;
    for (u32 base = 0; base < count; base += kThreads) {
      u32 column = base + threadIdx.x % (parts > 1 ? count : kThreads), part = parts > 1 ? threadIdx.x / count : 0;
      bool mine = column < count && part < parts && first + column < g.columns;
      T total = Neutral<T>::of(G::op(k));
      // Many are in flight before the first is folded: this is all that still runs.
      for (u32 s = part; mine && s < g.slices; s += kFolds * parts) {
        T some[kFolds];
#pragma unroll
        for (int i = 0; i < kFolds; ++i)
          if (s + i * parts < g.slices) some[i] = __ldcg(partials + (u64)(s + i * parts) * g.columns + first + column);
#pragma unroll
        for (int i = 0; i < kFolds; ++i)
          if (s + i * parts < g.slices) total = fold(G::op(k), total, some[i]);
      }
      if (parts > 1) {
        if (mine) sums[part * count + column] = total;
        __syncthreads();
        if (mine && part == 0)
          for (u32 q = 1; q < parts; ++q) total = fold(G::op(k), total, sums[q * count + column]);
        __syncthreads();
      }
      if (mine && part == 0) g.finish_column(k, first + column, total);
    }
  }
}

// The innermost axis is reduced: kLanes threads a row, neighbours read neighbours.
template <class G>
__device__ __forceinline__ void run_rows(const G& g, u32 block, void* shared) {
  typedef typename G::Index Index;
  typedef typename G::Number W;
  typedef typename Total<W>::type T;
  constexpr int kLanes = G::kLanes, kRows = kThreads / kLanes;
  u32 tile = block / g.slices, slice = block - tile * g.slices;
  Index row = (Index)tile * kRows + threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  typename G::Offset base[G::kPlaces];
  g.kept(row < g.columns ? row : 0, base);
  Index begin = (Index)slice * g.slice_units, end = begin + g.slice_units;
  end = row >= g.columns ? 0 : end < g.units ? end : g.units;
  W some[G::kReduced][G::kWidth];
  T totals[G::kReduced];
#pragma unroll
  for (int k = 0; k < G::kReduced; ++k) {
    totals[k] = Neutral<T>::of(G::op(k));
#pragma unroll
    for (int v = 0; v < G::kWidth; ++v) some[k][v] = Neutral<W>::of(G::op(k));
  }
  auto flush = [&] {
#pragma unroll
    for (int k = 0; k < G::kReduced; ++k)
#pragma unroll
      for (int v = 0; v < G::kWidth; ++v) {
        totals[k] = fold(G::op(k), totals[k], (T)some[k][v]);
        some[k][v] = Neutral<W>::of(G::op(k));
      }
  };
  int steps = 0;
  for (Index first = begin + lane; first < end; first += kLanes * G::kUnroll) {
    step(g, base, first, (Index)kLanes, end, [&](W(&results)[G::kWidth][G::kResults]) {
#pragma unroll
      for (int k = 0; k < G::kReduced; ++k)
#pragma unroll
        for (int v = 0; v < G::kWidth; ++v) some[k][v] = fold(G::op(k), some[k][v], results[v][G::result(k)]);
    });
    if (++steps % kFolds == 0) flush();
  }
  flush();
#pragma unroll
  for (int k = 0; k < G::kReduced; ++k) {
    T total = totals[k];
#pragma unroll
    for (int d = (kLanes < 32 ? kLanes : 32) / 2; d > 0; d /= 2)
      total = fold(G::op(k), total, __shfl_xor_sync(0xffffffffu, total, d));
    if (kLanes > 32) {
      T* sums = (T*)shared;
      if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = total;
      __syncthreads();
      int warp = threadIdx.x / kLanes * (kLanes / 32);
      total = sums[warp];
      for (int w = 1; w < kLanes / 32; ++w) total = fold(G::op(k), total, sums[warp + w]);
      __syncthreads();
    }
    if (lane != 0 || row >= g.columns) continue;
    if (g.slices == 1)
      g.finish(k, base, 0, total);
    else
      ((T*)g.scratch)[((u64)k * g.slices + slice) * g.columns + row] = total;
  }
  if (g.slices > 1 && is_last_block(g.counters + tile, g.slices)) fold_slices(g, (u64)tile * kRows, kRows, shared);
}

// The innermost axis is kept: kLanes threads lie along it with kWidth columns each, the others take other rows.
template <class G>
__device__ __forceinline__ void run_columns(const G& g, u32 block, void* shared) {
  typedef typename G::Index Index;
  typedef typename G::Number W;
  typedef typename Total<W>::type T;
  constexpr int kLanes = G::kLanes, kRows = kThreads / kLanes, kColumns = kLanes * G::kWidth;
  u32 tile = block / g.slices, slice = block - tile * g.slices;
  int lane = threadIdx.x % kLanes, row = threadIdx.x / kLanes;
  u64 column = (u64)tile * kColumns + lane * G::kWidth;
  typename G::Offset base[G::kPlaces];
  g.kept((Index)(column < g.columns ? column : 0), base);
  Index begin = (Index)slice * g.slice_units, end = begin + g.slice_units;
  end = column >= g.columns ? 0 : end < g.units ? end : g.units;
  W some[G::kReduced][G::kWidth];
  T totals[G::kReduced][G::kWidth];
#pragma unroll
  for (int k = 0; k < G::kReduced; ++k)
#pragma unroll
    for (int v = 0; v < G::kWidth; ++v) {
      totals[k][v] = Neutral<T>::of(G::op(k));
      some[k][v] = Neutral<W>::of(G::op(k));
    }
  auto flush = [&] {
#pragma unroll
    for (int k = 0; k < G::kReduced; ++k)
#pragma unroll
      for (int v = 0; v < G::kWidth; ++v) {
        totals[k][v] = fold(G::op(k), totals[k][v], (T)some[k][v]);
        some[k][v] = Neutral<W>::of(G::op(k));
      }
  };
  int steps = 0;
  for (Index first = begin + row; first < end; first += kRows * G::kUnroll) {
    step(g, base, first, (Index)kRows, end, [&](W(&results)[G::kWidth][G::kResults]) {
#pragma unroll
      for (int k = 0; k < G::kReduced; ++k)
#pragma unroll
        for (int v = 0; v < G::kWidth; ++v) some[k][v] = fold(G::op(k), some[k][v], results[v][G::result(k)]);
    });
    if (++steps % kFolds == 0) flush();
  }
  flush();
  T* sums = (T*)shared;
#pragma unroll
  for (int k = 0; k < G::kReduced; ++k) {
    if (kRows > 1) {
#pragma unroll
      for (int v = 0; v < G::kWidth; ++v) sums[(row * G::kWidth + v) * kLanes + lane] = totals[k][v];
      // Rows of threads are folded in halves: few steps, and the same order at every run.
      for (int half = kRows / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row >= half) continue;
#pragma unroll
        for (int v = 0; v < G::kWidth; ++v) {
          T* mine = sums + (row * G::kWidth + v) * kLanes + lane;
          *mine = fold(G::op(k), *mine, mine[half * G::kWidth * kLanes]);
        }
      }
      if (row == 0)
#pragma unroll
        for (int v = 0; v < G::kWidth; ++v) totals[k][v] = sums[v * kLanes + lane];
      __syncthreads();
    }
    if (row != 0 || column >= g.columns) continue;
#pragma unroll
    for (int v = 0; v < G::kWidth; ++v) {
      if (g.slices == 1)
        g.finish(k, base, v, totals[k][v]);
      else
        ((T*)g.scratch)[((u64)k * g.slices + slice) * g.columns + column + v] = totals[k][v];
    }
  }
  if (g.slices > 1 && is_last_block(g.counters + tile, g.slices))
    fold_slices(g, (u64)tile * kColumns, kColumns, shared);
}
