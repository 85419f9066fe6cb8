// Means of windows, over the elements they cover or, with count_padding, over all of the window.
#include "pool/pool.cuh"

__device__ __forceinline__ S divisor(const Pool& p, int row, int column) {
  if (p.count_padding) return (S)KH * (S)KW;
  const int top = row < 0 ? 0 : row, left = column < 0 ? 0 : column;
  const int bottom = row + KH < p.height ? row + KH : p.height, right = column + KW < p.width ? column + KW : p.width;
  return (S)(bottom - top) * (S)(right - left);
}

template <int N>
__device__ __forceinline__ void add_pack(S* sums, const T* from, S count) {
  const Pack<T, N> pack = load<N>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) sums[i] += widen<S>(pack.at[i]) / count;
}

template <int N>
__device__ __forceinline__ void store_sums(T* to, const S* sums, S count) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.at[i] = narrow<T>(sums[i] / count);
  *(Pack<T, N>*)to = pack;
}

template <int N>
__device__ __forceinline__ void average(const Pool& p, const T* x, T* y) {
  const int channel = first_channel<N>();
  if (channel >= p.channels) return;
  const i64 total = p.images * p.rows * p.columns;
  for (i64 number = first_pixel(); number < total; number += pixel_step()) {
    const Pixel at(number, p);
    const T* image = x + at.image * p.height * p.width * p.channels + channel;
    const int row = at.row * SH - p.top, column = at.column * SW - p.left;
    S sums[N] = {};
#pragma unroll kUnrolledRows
    for (int r = 0; r < KH; ++r) {
#pragma unroll kUnrolledColumns
      for (int c = 0; c < KW; ++c)
        if ((u32)(row + r) < (u32)p.height && (u32)(column + c) < (u32)p.width)
          add_pack<N>(sums, image + (i64)((row + r) * p.width + column + c) * p.channels, (S)1);
    }
    store_sums<N>(y + number * p.channels + channel, sums, divisor(p, row, column));
  }
}

// dy -> dx: each dy is spread evenly over its window; a thread has one cell of x and visits the windows that cover it.
template <int N>
__device__ __forceinline__ void spread(const Pool& p, const T* dy, T* dx) {
  const int channel = first_channel<N>();
  if (channel >= p.channels) return;
  const i64 total = p.images * p.rows * p.columns;
  for (i64 number = first_pixel(); number < total; number += pixel_step()) {
    const Pixel at(number, p);
    const Range rows = covering(at.row + p.top, KH, SH, p.out_height);
    const Range columns = covering(at.column + p.left, KW, SW, p.out_width);
    S sums[N] = {};
    for (int r = rows.begin; r < rows.end; ++r)
      for (int c = columns.begin; c < columns.end; ++c)
        add_pack<N>(sums, dy + ((at.image * p.out_height + r) * p.out_width + c) * p.channels + channel,
                    divisor(p, r * SH - p.top, c * SW - p.left));
    store_sums<N>(dx + number * p.channels + channel, sums, (S)1);
  }
}

extern "C" __global__ void avg_pool(Pool p, const T* x, T* y) {
  begin_kernel();
  average<VEC>(p, x, y);
}
extern "C" __global__ void avg_pool_grad(Pool p, const T* dy, T* dx) {
  begin_kernel();
  spread<VEC>(p, dy, dx);
}
