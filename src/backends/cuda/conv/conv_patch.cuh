// Convolutions of images with few channels, on tensor cores: x[N,H,W,C], w[O,KH,KW,C], y[N,OH,OW,O]. A block has
// tiles of TILE_H × TILE_W output pixels, and copies what their taps reach of the image, the patch, into shared memory.
// In the image as in the weights, taps and channels of a row of the kernel lie side by side: a run.
//
// Constants say the shape and the tile. T: type of the numbers; f32 are rounded to TF32.
#pragma once

#include "kernels/pack.cuh"
#include "kernels/tensor_core.cuh"

#include "generated.cuh"

constexpr int kPair = 4 / sizeof(T);  // numbers in a word
constexpr int kRun = KERNEL_W * CHANNELS, kTerms = KERNEL_H * kRun;
constexpr int kStrideW = STRIDE_W * CHANNELS;  // numbers
constexpr int kPatchHeight = (TILE_H - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H + 1;
constexpr int kPatchRow = (TILE_W - 1) * kStrideW + kRun;  // numbers
constexpr int kAcross = (OUT_W + TILE_W - 1) / TILE_W, kDown = (OUT_H + TILE_H - 1) / TILE_H;

#if defined(VARVE_EMULATED)
__device__ __forceinline__ u32 tf32_round(float x) { return __float_as_uint(emu_tf32(x)); }
#else
__device__ __forceinline__ u32 tf32_round(float x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
#endif

// Its first output pixel.
struct Tile {
  int image, y, x;
  __device__ __forceinline__ explicit Tile(int number)
      : image(number / (kDown * kAcross)), y(number / kAcross % kDown * TILE_H), x(number % kAcross * TILE_W) {}
};

// Numbers of a tile's patch in flight: pieces of 32, every WARPS-th from `first` on. Outside the image they are 0.
constexpr int kRowPieces = (kPatchRow + 31) / 32, kPieces = kPatchHeight * kRowPieces;
template <int kCount>
struct PatchPieces {
  T values[kCount];

  __device__ __forceinline__ void read(const T* images, const Tile& tile, int first) {
    const int top = tile.y * STRIDE_H - TOP, left = (tile.x * STRIDE_W - LEFT) * CHANNELS;
    const T* const image = images + (i64)tile.image * (HEIGHT * WIDTH * CHANNELS);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int piece = first + WARPS * i, row = piece / kRowPieces, at = column(piece);
      const int y = top + row, x = left + at;
      values[i] = narrow<T>(0.0f);
      if (row < kPatchHeight && at < kPatchRow && (u32)y < HEIGHT && (u32)x < WIDTH * CHANNELS)
        values[i] = image[y * (WIDTH * CHANNELS) + x];
    }
  }
  // put_one(row, number in the row, value) for each.
  template <class PutOne>
  __device__ __forceinline__ void put(int first, PutOne put_one) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int piece = first + WARPS * i, row = piece / kRowPieces, at = column(piece);
      if (row < kPatchHeight && at < kPatchRow) put_one(row, at, values[i]);
    }
  }

 private:
  static __device__ __forceinline__ int column(int piece) { return piece % kRowPieces * 32 + (int)threadIdx.x % 32; }
};
