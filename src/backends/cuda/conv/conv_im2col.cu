// A convolution's images gathered into a matrix: a row for each output pixel with all that its taps lie on, in the
// order of the weights [KH,KW,I], and zeros up to a multiple of 16 bytes. A thread writes 16 bytes. Along a row of the
// kernel without dilation, and in the image, taps and channels are one axis ("run").
//
// T: bits of the stored type. WIDE: 1 when 16 bytes never span two taps and images lie on 16 bytes, else 0.
#include "kernels/extents.cuh"
#include "kernels/pack.cuh"

#include "generated.cuh"

const int V = 16 / sizeof(T);

struct Gather {
  const T* images;
  T* to;
  const T* weights;  // copied likewise after the images, into rows of the same length; may be null
  T* to_weights;
  Extent32 packs;  // in a row of the matrix
  Extent32 out_width, out_height, run, channels;
  i64 pixel_packs, all_packs;          // of the images, and with the weights
  i64 terms;                           // that are no padding
  i64 in_height, in_row;               // of the image: rows, and elements in each
  i64 stride_height, dilation_height;  // in rows
  i64 stride, skip;                    // in elements: from pixel to pixel, and over what dilation leaves out
  i64 pad_top, pad_left;               // in rows, in elements
};

__device__ __forceinline__ void copy_weights(const Gather& g, u32 at) {
  u32 row = g.packs.quotient(at), k = (at - row * g.packs.size) * V;
  Pack<T, V> pack;
#pragma unroll
  for (int v = 0; v < V; ++v) pack.at[v] = k + v < g.terms ? g.weights[(i64)row * g.terms + k + v] : (T)0;
  *(Pack<T, V>*)(g.to_weights + (i64)at * V) = pack;
}

extern "C" __global__ void __launch_bounds__(256) conv_im2col(const __grid_constant__ Gather g) {
  begin_kernel();
  u32 at = blockIdx.x * 256 + threadIdx.x;
  if (at >= g.all_packs) return;
  if (at >= g.pixel_packs) return copy_weights(g, at - (u32)g.pixel_packs);
  u32 pixel = g.packs.quotient(at), k = (at - pixel * g.packs.size) * V;
  u32 line = g.out_width.quotient(pixel), image = g.out_height.quotient(line), tap_row = g.run.quotient(k);
  int left = (int)(pixel - line * g.out_width.size) * (int)g.stride - (int)g.pad_left;
  int y = (int)(line - image * g.out_height.size) * (int)g.stride_height - (int)g.pad_top +
          (int)tap_row * (int)g.dilation_height;
  const T* from = g.images + (i64)image * g.in_height * g.in_row;
  u32 along = k - tap_row * g.run.size;
  Pack<T, V> pack;
#if WIDE
  int x = left + (int)along + (int)g.channels.quotient(along) * (int)g.skip;
#pragma unroll
  for (int v = 0; v < V; ++v) pack.at[v] = 0;
  if ((u32)y < (u32)g.in_height && (u32)x < (u32)g.in_row) pack = *(const Pack<T, V>*)(from + (i64)y * g.in_row + x);
#else
#pragma unroll
  for (int v = 0; v < V; ++v) {
    int x = left + (int)along + (g.skip ? (int)g.channels.quotient(along) * (int)g.skip : 0);
    bool inside = k + v < g.terms && (u32)y < (u32)g.in_height && (u32)x < (u32)g.in_row;
    pack.at[v] = inside ? from[(i64)y * g.in_row + x] : (T)0;
    if (++along == g.run.size) {
      along = 0;
      y += (int)g.dilation_height;
    }
  }
#endif
  *(Pack<T, V>*)(g.to + (i64)at * V) = pack;
}

// Rows of the product without their padding.
extern "C" __global__ void __launch_bounds__(256)
    conv_cut(const T* from, T* to, i64 rows, i64 columns, i64 padded_columns) {
  begin_kernel();
  i64 at = (i64)blockIdx.x * 256 + threadIdx.x;
  if (at >= rows * columns) return;
  i64 row = at / columns;
  to[at] = from[row * padded_columns + at - row * columns];
}
