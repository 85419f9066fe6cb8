// y = the largest of each window of x (window_max.cuh). STORE: x with its bias and ReLU is written, too; threads then
// number patches of x of the stride's size, each beginning where a window would. DROPOUT: follows the pooling.
#include "kernels/philox.cuh"

#include "pool/window_max.cuh"

struct Forward {
  const T *x, *bias;
  T *y, *stored;
#ifdef DROPOUT
  Drop drop;
#endif
};

template <int N>
__device__ __forceinline__ void pool_forward(const Pool& p, const Forward& f) {
  const int channel = first_channel<N>();
  if (channel >= p.channels) return;
  S bias[N];
  load_bias<N>(f.bias, channel, bias);
#ifdef DROPOUT
  const RandomKey key = random_key(f.drop.seed, f.drop.counter, f.drop.stream);
  const Dropout<S> dropout(f.drop.rate, f.drop.kept);
#endif
  const i64 total = p.images * p.rows * p.columns;
  for (i64 number = first_pixel(); number < total; number += pixel_step()) {
    const Pixel at(number, p);
    const i64 image = at.image * p.height * p.width * p.channels + channel;
    const int row = at.row * SH - p.top, column = at.column * SW - p.left;
#ifdef STORE
#pragma unroll
    for (int r = 0; r < SH; ++r)
#pragma unroll
      for (int c = 0; c < SW; ++c) {
        if ((u32)(row + r) >= (u32)p.height || (u32)(column + c) >= (u32)p.width) continue;
        const i64 place = image + (i64)((row + r) * p.width + column + c) * p.channels;
        const Cell<N> cell(f.x + place, bias);
        Pack<T, N> result;
#pragma unroll
        for (int i = 0; i < N; ++i) result.at[i] = narrow<T>(cell.at[i]);
        *(Pack<T, N>*)(f.stored + place) = result;
      }
    if (at.row >= p.out_height || at.column >= p.out_width) continue;
#endif
    Largest<N> largest(f.x + image, bias, p, row, column);
    const i64 to = ((at.image * p.out_height + at.row) * p.out_width + at.column) * p.channels + channel;
#ifdef DROPOUT
    drop_some<N>(largest.best, to, dropout, key);
#endif
    Pack<T, N> result;
#pragma unroll
    for (int i = 0; i < N; ++i) result.at[i] = narrow<T>(largest.best[i]);
    *(Pack<T, N>*)(f.y + to) = result;
  }
}

extern "C" __global__ void max_pool(Pool p, Forward f) {
  begin_kernel();
  pool_forward<VEC>(p, f);
}
