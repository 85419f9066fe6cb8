// y from x, or with BACK 1 dx from dy, a convolution's TO images from its FROM images.
//   parts[z] of to[N,TO_PIXELS,TO_CHANNELS], of sums over slab z of from's channels: SLAB words of each pixel
//   SIDE   channels of `to` that a block computes; each warp has 16 of them
//   TILES  of 8 images that a warp has: warps of the same channels share the batch
// Weights are the left operand: rows 2 · group and 2 · group + 1 of a warp's channels are a lane's, so that two
// neighbours are stored at once.
#include "conv/conv_small_images.cuh"

#if BACK
#define FROM_PIXELS OUT_PIXELS
#define TO_PIXELS IN_PIXELS
#define FROM_CHANNELS OUT_CHANNELS
#define TO_CHANNELS IN_CHANNELS
typedef Transposed<SIDE / PACK> Weights;
#else
#define FROM_PIXELS IN_PIXELS
#define TO_PIXELS OUT_PIXELS
#define FROM_CHANNELS IN_CHANNELS
#define TO_CHANNELS OUT_CHANNELS
typedef Tile<SLAB, 2> Weights;
#endif
typedef Tile<SLAB, 1> Images;
#define IMAGES (PADDED * SLAB)  // words of a tile of one pixel of all images
#define WEIGHTS (SIDE * SLAB)   // and of one tap
#define HALF (SLAB / 2)

// All that is needed of half a slab: it is multiplied while the other half is in flight.
__device__ __forceinline__ void copy_half(int half, u32* images, u32* weights, const T* from, const T* w) {
  const i64 slab = (i64)blockIdx.y * SLAB * PACK, first = (i64)blockIdx.x * SIDE;
#pragma unroll
  for (int t = 0; t < USED_TAPS; ++t) {
#if BACK
    copy_part<Weights, HALF * PACK, SIDE / PACK, TAPS * TO_CHANNELS, SLAB * PACK>(
        weights + t * WEIGHTS, half * HALF * PACK, 0, w + (slab * TAPS + used(t)) * TO_CHANNELS + first);
#else
    copy_part<Weights, SIDE, HALF, TAPS * FROM_CHANNELS, SIDE>(weights + t * WEIGHTS, 0, half * HALF,
                                                               w + (first * TAPS + used(t)) * FROM_CHANNELS + slab);
#endif
  }
#pragma unroll
  for (int q = 0; q < FROM_PIXELS; ++q)
    copy_part<Images, PADDED, HALF, FROM_PIXELS * FROM_CHANNELS, BATCH>(images + q * IMAGES, 0, half * HALF,
                                                                        from + q * FROM_CHANNELS + slab);
  end_copies();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) conv_small_images(const T* from, const T* w, float* parts) {
  begin_kernel();
  extern __shared__ __align__(128) u32 memory[];
  u32 *const images = memory, *const weights = images + FROM_PIXELS * IMAGES;
#pragma unroll
  for (int half = 0; half < 2; ++half) copy_half(half, images, weights, from, w);

  const int warp = (int)threadIdx.x / 32, group = (int)threadIdx.x % 32 / 4, member = (int)threadIdx.x % 4;
  const int channel = warp % (SIDE / 16) * 16 + 2 * group, column = warp / (SIDE / 16) * TILES * 8;
#if BACK
  const Across<SIDE / PACK> rows(channel);
#endif
  float sums[TO_PIXELS][TILES][4] = {};
#pragma unroll 1
  for (int k = 0; k < SLAB / 8; ++k) {
    if (k == 0) wait_for_copies<1>();
    if (k == HALF / 8) wait_for_copies<0>();
    if (k % (HALF / 8) == 0) __syncthreads();
    const u32* const mine = images + column * SLAB + Images::place(group, 8 * k + 2 * member);
    uint2 right[FROM_PIXELS][TILES];
#pragma unroll
    for (int q = 0; q < FROM_PIXELS; ++q)
#pragma unroll
      for (int j = 0; j < TILES; ++j) right[q][j] = two_words(mine + q * IMAGES + j * 8 * SLAB);
#pragma unroll
    for (int t = 0; t < USED_TAPS; ++t) {
      u32 left[4];
#if BACK
      rows.read(weights + t * WEIGHTS + k * 8 * SIDE, left);
#else
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const uint2 words = two_words(weights + t * WEIGHTS + Weights::place(channel + u, 8 * k + 2 * member));
        left[u] = words.x;
        left[2 + u] = words.y;
      }
#endif
#pragma unroll
      for (int p = 0; p < TO_PIXELS; ++p)
#pragma unroll
        for (int q = 0; q < FROM_PIXELS; ++q)
          if ((BACK ? join(q, p) : join(p, q)) == t)
#pragma unroll
            for (int j = 0; j < TILES; ++j) mma(sums[p][j], left, right[q][j].x, right[q][j].y, T{});
    }
  }

  float2* const to =
      (float2*)(parts + (i64)blockIdx.y * BATCH * TO_PIXELS * TO_CHANNELS + (i64)blockIdx.x * SIDE + channel);
#pragma unroll
  for (int j = 0; j < TILES; ++j)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int image = column + 8 * j + 2 * member + e;
      if (image < BATCH)
#pragma unroll
        for (int p = 0; p < TO_PIXELS; ++p)
          to[(image * TO_PIXELS + p) * (TO_CHANNELS / 2)] = make_float2(sums[p][j][e], sums[p][j][2 + e]);
    }
}
