// What poolings share. x [N,H,W,C], y [N,OH,OW,C]. KH, KW: the window; SH, SW: the stride. Blocks of threads: along the
// channels in packs, by pixels; blockIdx.y counts parts of the channels.
#pragma once

#include "kernels/pack.cuh"
#include "kernels/prelude.cuh"

#include "generated.cuh"

typedef ELEMENT T;
typedef Wide<T>::type S;

struct Pool {
  i64 images;
  int height, width, channels, out_height, out_width;
  int top, left;      // padding before
  int rows, columns;  // what threads number: pixels of y, of x, or patches of x
  int count_padding;  // averages: of whole windows
};

constexpr int kUnrolledRows = KH * KW <= 36 ? KH : 1, kUnrolledColumns = KH * KW <= 36 ? KW : 1;

// The number of a pixel taken apart. 64-bit divisions are slow, and most numbers small.
struct Pixel {
  i64 image;
  int row, column;

  __device__ __forceinline__ Pixel(i64 number, const Pool& p) {
    if ((number >> 32) == 0) {
      const u32 all = (u32)number, line = all / (u32)p.columns;
      column = (int)(all - line * (u32)p.columns);
      image = line / (u32)p.rows;
      row = (int)(line - (u32)image * (u32)p.rows);
    } else {
      const i64 line = number / p.columns;
      column = (int)(number - line * p.columns);
      image = line / p.rows;
      row = (int)(line - image * p.rows);
    }
  }
};

// The first channel of this thread, and where its pixels begin and how far they are apart.
template <int N>
__device__ __forceinline__ int first_channel() {
  return (int)(blockIdx.y * blockDim.x + threadIdx.x) * N;
}
__device__ __forceinline__ i64 first_pixel() { return (i64)blockIdx.x * blockDim.y + threadIdx.y; }
__device__ __forceinline__ i64 pixel_step() { return (i64)gridDim.x * blockDim.y; }

template <int N>
__device__ __forceinline__ Pack<T, N> load(const T* from) {
  return *(const Pack<T, N>*)from;
}

// The windows, of `count`, that cover an element at `place` of the padded input, along one side.
struct Range {
  int begin, end;
};
__device__ __forceinline__ Range covering(int place, int window, int stride, int count) {
  const int begin = place < window ? 0 : (place - window) / stride + 1, last = place / stride;
  return {begin, last < count ? last + 1 : count};
}
