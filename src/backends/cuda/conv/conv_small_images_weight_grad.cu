// dw from x and dy. A block has 64 · 32 weights of each tap, a warp 16 · 16: rows 2 · group
// and 2 · group + 1 of these are a lane's, and columns 4 · member to 4 · member + 3.
#include "conv/conv_small_images.cuh"

#define OUTS (64 / PACK)  // words of a row of the tiles of one pixel of all images
#define INS (32 / PACK)
#define STEP (8 * PACK)  // images that one instruction sums over

// COUNT images: half of them are multiplied while the others are in flight.
template <int FIRST, int COUNT>
__device__ __forceinline__ void copy_images(u32* dys, u32* xs, const T* dy, const T* x) {
#pragma unroll
  for (int p = 0; p < OUT_PIXELS; ++p)
    copy_part<Transposed<OUTS>, COUNT, OUTS, OUT_PIXELS * OUT_CHANNELS, BATCH>(
        dys + p * PADDED * OUTS, FIRST, 0, dy + p * OUT_CHANNELS + (i64)blockIdx.x * 64);
#pragma unroll
  for (int q = 0; q < IN_PIXELS; ++q)
    copy_part<Transposed<INS>, COUNT, INS, IN_PIXELS * IN_CHANNELS, BATCH>(xs + q * PADDED * INS, FIRST, 0,
                                                                           x + q * IN_CHANNELS + (i64)blockIdx.y * 32);
  end_copies();
}

struct __align__(4 * sizeof(T)) Four {
  T of[4];
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) conv_small_images_weight_grad(const T* x, const T* dy, T* dw) {
  begin_kernel();
  extern __shared__ __align__(128) u32 memory[];
  u32 *const dys = memory, *const xs = dys + OUT_PIXELS * PADDED * OUTS;
  constexpr int kSteps = PADDED / STEP, kFirst = (kSteps + 1) / 2;
  copy_images<0, kFirst * STEP>(dys, xs, dy, x);
  copy_images<kFirst * STEP, (kSteps - kFirst) * STEP>(dys, xs, dy, x);

  const int warp = (int)threadIdx.x / 32, group = (int)threadIdx.x % 32 / 4, member = (int)threadIdx.x % 4;
  const int row = warp % 4 * 16 + 2 * group, column = warp / 4 * 16;
  const Across<OUTS> of_dy(row);
  const Across<INS> of_x(column + 2 * group);
  float sums[USED_TAPS][2][4] = {};
#pragma unroll 1
  for (int k = 0; k < kSteps; ++k) {
    if (k == 0) wait_for_copies<1>();
    if (k == kFirst) wait_for_copies<0>();
    if (k == 0 || k == kFirst) __syncthreads();
    u32 left[OUT_PIXELS][4], right[IN_PIXELS][4];
#pragma unroll
    for (int p = 0; p < OUT_PIXELS; ++p) of_dy.read(dys + (p * PADDED + k * STEP) * OUTS, left[p]);
#pragma unroll
    for (int q = 0; q < IN_PIXELS; ++q) of_x.read(xs + (q * PADDED + k * STEP) * INS, right[q]);
#pragma unroll
    for (int p = 0; p < OUT_PIXELS; ++p)
#pragma unroll
      for (int q = 0; q < IN_PIXELS; ++q)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (join(p, q) >= 0) mma(sums[join(p, q)][e], left[p], right[q][e], right[q][2 + e], T{});
  }

  dw += ((i64)blockIdx.x * 64 + row) * TAPS * IN_CHANNELS + (i64)blockIdx.y * 32 + column + 4 * member;
#pragma unroll
  for (int t = 0; t < TAPS; ++t)
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      Four four = {};
#pragma unroll
      for (int n = 0; n < USED_TAPS; ++n)
        if (used(n) == t)
#pragma unroll
          for (int i = 0; i < 4; ++i) four.of[i] = narrow<T>(sums[n][i % 2][2 * u + i / 2]);
      *(Four*)(dw + (u * TAPS + t) * IN_CHANNELS) = four;
    }
}
