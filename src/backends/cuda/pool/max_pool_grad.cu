// x, dy -> dx: each dy goes to the place of its window's largest (window_max.cuh). A thread has the cells of a patch of
// x, PH x PW (multiples of the stride), and visits all windows that reach into it: no two threads write one cell.
// STRIP: then of the patches below, each of which needs anew only the windows that begin in it; more than one where a
// window reaches no further than into the next patch. DROPOUT: of dy, before. RELU: then the gradient of the ReLU that
// gave x: only where x is above zero. SUM: dx is also summed over all pixels.
#include "kernels/philox.cuh"

#include "pool/window_max.cuh"

struct Backward {
  const T *x, *bias, *dy;
  T *dx, *sum;
  S* shares;  // [gridDim.x][channels]
#ifdef DROPOUT
  Drop drop;
#endif
};

#define REACH_H ((KH - 1) / SH)  // windows that begin before a patch and reach into it, along one side
#define REACH_W ((KW - 1) / SW)

#ifdef SUM
__device__ u32 arrived[256];  // blocks of each part of the channels that have their share ready; always 0 between runs

// Sums of all threads over the same channels: shares of blocks, then the last block adds those in their order.
template <int N>
__device__ __forceinline__ void finish_sums(const Pool& p, const Backward& b, int channel, S* sums) {
  __shared__ S all[256 * N];
  __shared__ bool last;
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const auto add_rows = [&] {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) all[thread * N + i] = sums[i];
    __syncthreads();
    if (threadIdx.y != 0) return;
    for (int t = thread + (int)blockDim.x; t < (int)(blockDim.x * blockDim.y); t += (int)blockDim.x)
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += all[t * N + i];
  };
  add_rows();
  const bool live = channel < p.channels;
  if (threadIdx.y == 0 && live)
#pragma unroll
    for (int i = 0; i < N; ++i) b.shares[(i64)blockIdx.x * p.channels + channel + i] = sums[i];
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    last = atomicAdd(arrived + blockIdx.y, 1u) == gridDim.x - 1;
    if (last) arrived[blockIdx.y] = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  const int run = (int)((gridDim.x + blockDim.y - 1) / blockDim.y), from = (int)threadIdx.y * run;
#pragma unroll
  for (int i = 0; i < N; ++i) sums[i] = 0;
  if (live) {
    const int end = from + run < (int)gridDim.x ? from + run : (int)gridDim.x;
#pragma unroll 8
    for (int block = from; block < end; ++block)
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += __ldcg(b.shares + (i64)block * p.channels + channel + i);
  }
  add_rows();
  if (threadIdx.y == 0 && live)
#pragma unroll
    for (int i = 0; i < N; ++i) b.sum[channel + i] = narrow<T>(sums[i]);
}
#endif

// What a window gives, and to which of its cells: -1, there is no such window.
template <int N>
struct Given {
  S dy[N];
  int which[N];
};

template <int N>
__device__ __forceinline__ void pool_backward(const Pool& p, const Backward& b) {
  const int channel = first_channel<N>();
#ifdef SUM
  S sums[N] = {};
#endif
  if (channel < p.channels) {
    S bias[N];
    load_bias<N>(b.bias, channel, bias);
#ifdef DROPOUT
    const RandomKey key = random_key(b.drop.seed, b.drop.counter, b.drop.stream);
    const Dropout<S> dropout(b.drop.rate, b.drop.kept);
#endif
    const i64 total = p.images * p.rows * p.columns;
    const int patches = (p.height + p.top + PH - 1) / PH;  // below each other
    for (i64 number = first_pixel(); number < total; number += pixel_step()) {
      const Pixel at(number, p);
      const i64 image = at.image * p.height * p.width * p.channels + channel;
      const auto given_by = [&](int y_row, int y_column) {
        Given<N> given;
        if ((u32)y_row >= (u32)p.out_height || (u32)y_column >= (u32)p.out_width) {
#pragma unroll
          for (int i = 0; i < N; ++i) given.which[i] = -1, given.dy[i] = 0;
          return given;
        }
        const Largest<N> largest(b.x + image, bias, p, y_row * SH - p.top, y_column * SW - p.left);
        const i64 from = ((at.image * p.out_height + y_row) * p.out_width + y_column) * p.channels + channel;
        const Pack<T, N> dy = load<N>(b.dy + from);
#pragma unroll
        for (int i = 0; i < N; ++i) given.dy[i] = widen<S>(dy.at[i]), given.which[i] = largest.which[i];
#ifdef DROPOUT
        drop_some<N>(given.dy, from, dropout, key);
#endif
#ifdef RELU
#pragma unroll
        for (int i = 0; i < N; ++i) given.dy[i] = largest.best[i] > (S)0 ? given.dy[i] : (S)0;
#endif
        return given;
      };
      Given<N> above[REACH_W + PW / SW];  // by the windows that begin in the patch above
#pragma unroll 1
      for (int s = 0; s < STRIP && at.row * STRIP + s < patches; ++s) {
        const int patch = at.row * STRIP + s, row = patch * PH - p.top, column = at.column * PW - p.left;
        S cells[PH * PW][N] = {};
#pragma unroll
        for (int a = -REACH_H; a < PH / SH; ++a)
#pragma unroll
          for (int e = -REACH_W; e < PW / SW; ++e) {
            Given<N> given;
            if (STRIP > 1 && a < 0 && s > 0)
              given = above[e + REACH_W];
            else
              given = given_by(patch * (PH / SH) + a, at.column * (PW / SW) + e);
            if (STRIP > 1 && a == 0) above[e + REACH_W] = given;
#pragma unroll
            for (int r = 0; r < KH; ++r)
#pragma unroll
              for (int c = 0; c < KW; ++c) {
                const int r_here = a * SH + r, c_here = e * SW + c;
                if (r_here < 0 || r_here >= PH || c_here < 0 || c_here >= PW) continue;
#pragma unroll
                for (int i = 0; i < N; ++i)
                  cells[r_here * PW + c_here][i] += given.which[i] == r * KW + c ? given.dy[i] : (S)0;
              }
          }
#pragma unroll
        for (int r = 0; r < PH; ++r)
#pragma unroll
          for (int c = 0; c < PW; ++c) {
            if ((u32)(row + r) >= (u32)p.height || (u32)(column + c) >= (u32)p.width) continue;
            Pack<T, N> result;
#pragma unroll
            for (int i = 0; i < N; ++i) {
              result.at[i] = narrow<T>(cells[r * PW + c][i]);
#ifdef SUM
              sums[i] += cells[r * PW + c][i];
#endif
            }
            *(Pack<T, N>*)(b.dx + image + (i64)((row + r) * p.width + column + c) * p.channels) = result;
          }
      }
    }
  }
#ifdef SUM
  finish_sums<N>(p, b, channel, sums);
#endif
}

extern "C" __global__ void max_pool_grad(Pool p, Backward b) {
  begin_kernel();
  pool_backward<VEC>(p, b);
}
