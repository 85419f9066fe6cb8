// The largest of a window: the first of equals, row by row; NaN is larger than anything. BIAS: what counts as x is
// relu(x + bias). CLIPPED: windows may hang over the edges.
#pragma once

#include "pool/pool.cuh"

template <class V>
__device__ __forceinline__ bool beats(V value, V best) {
  return value > best || (value != value && best == best);
}

template <int N>
struct Cell {
  S at[N];

  // What counts as x: with its bias and ReLU, rounded as it would be stored.
  __device__ __forceinline__ Cell(const T* x, const S* bias) {
    const Pack<T, N> pack = load<N>(x);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      at[i] = widen<S>(pack.at[i]);
#ifdef BIAS
      const S sum = at[i] + bias[i];
      at[i] = widen<S>(narrow<T>(sum < (S)0 ? (S)0 : sum));
#endif
    }
  }
};

template <int N>
struct Largest {
  S best[N];
  int which[N];  // cell of the window

  // Of the window whose first cell is (row, column) of an image; every window covers at least one cell.
  __device__ __forceinline__ Largest(const T* image, const S* bias, const Pool& p, int row, int column) {
    bool any = false;
#pragma unroll kUnrolledRows
    for (int r = 0; r < KH; ++r) {
#pragma unroll kUnrolledColumns
      for (int c = 0; c < KW; ++c) {
#ifdef CLIPPED
        if ((u32)(row + r) >= (u32)p.height || (u32)(column + c) >= (u32)p.width) continue;
#endif
        const Cell<N> cell(image + (i64)((row + r) * p.width + column + c) * p.channels, bias);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const bool better = !any || beats(cell.at[i], best[i]);
          best[i] = better ? cell.at[i] : best[i];
          which[i] = better ? r * KW + c : which[i];
        }
        any = true;
      }
    }
  }
};

template <int N>
__device__ __forceinline__ void load_bias(const T* from, int channel, S* bias) {
#ifdef BIAS
#pragma unroll
  for (int i = 0; i < N; ++i) bias[i] = widen<S>(from[channel + i]);
#endif
}
