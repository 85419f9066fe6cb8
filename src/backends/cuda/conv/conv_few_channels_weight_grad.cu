// The gradient of the weights, dw[O,KH,KW,C] from x and dy, after conv/conv_patch.cuh and async_copy.cuh: a product
// of output channels by terms (taps and channels) over all pixels.
//   parts[block] = Σ dy[pixel] · patch[pixel], over a share of all tiles
//
// Tensor cores want words along the sum: a number in TF32, or 16-bit numbers of two neighbouring pixels. A word of the
// patch holds a number and the one that the next pixel has in its place.
//   OUTS       channels of a block, 32 or 64
//   WARPS_K    warps that share the terms, COLUMNS · 8 for each; WARPS_P of these rows share the pixels of a tile
//   STAGES     tiles of dy in flight, and the one at hand
// A step of the product takes two quads of words of a tile: a row of it has one quad or an even number of them.
#include "kernels/async_copy.cuh"

#include "conv/conv_patch.cuh"

constexpr int kThreads = 32 * WARPS;
constexpr int kVec = 16 / sizeof(T);  // neighbouring channels of dy that are copied at once
constexpr int kTileWords = TILE_W / kPair, kWords = TILE_H * kTileWords, kRowQuads = kTileWords / 4;
// From a quad of the patch to the next of its step, in words.
constexpr int kNextQuad = kRowQuads == 1 ? STRIDE_H * kPatchRow : 4 * kPair * kStrideW;
constexpr int kPitch = OUTS + 8;  // words of dy from pixel to pixel: lanes meet different banks
constexpr int kStage = kWords * kPitch, kPatch = (kPatchHeight * kPatchRow + 3) / 4 * 4;
constexpr int kUnits = kWords * OUTS / kVec, kMine = (kPieces + WARPS - 1) / WARPS;
constexpr int kRows = OUTS / 16;  // of 16 channels, that one instruction computes

__device__ __forceinline__ void put_in_patch(u32* patch, int row, int at, float value) {
  patch[row * kPatchRow + at] = tf32_round(value);
}
template <class Half>
__device__ __forceinline__ void put_in_patch(u32* patch, int row, int at, Half value) {
  u16* const place = (u16*)(patch + row * kPatchRow + at);
  *place = value.bits;
  if (at >= kStrideW) place[1 - 2 * kStrideW] = value.bits;
}

// A thread copies its units of dy as they lie in memory, kVec channels of the pixels of a word, and turns them into
// words where they are when they have come.
__device__ __forceinline__ void copy_units(u32* stage, const T* dy, const Tile& tile, int first_out, bool wide) {
#pragma unroll 1
  for (int unit = (int)threadIdx.x; unit < kUnits; unit += kThreads) {
    const int word = unit / (OUTS / kVec), out = unit % (OUTS / kVec) * kVec, y = tile.y + word / kTileWords;
#pragma unroll
    for (int i = 0; i < kPair; ++i) {
      const int x = tile.x + word % kTileWords * kPair + i, left = ALL_OUTS - first_out - out;
      u32* const to = stage + word * kPitch + out + 4 * i;
      const T* const from = dy + (((i64)tile.image * OUT_H + y) * OUT_W + x) * ALL_OUTS + first_out + out;
      const bool inside = y < OUT_H && x < OUT_W && left > 0;
      if (inside && wide) {
        copy_piece(to, from);
        continue;
      }
      Pack<T, kVec> pack;
#pragma unroll
      for (int v = 0; v < kVec; ++v) pack.at[v] = inside && v < left ? from[v] : narrow<T>(0.0f);
      *(Pack<T, kVec>*)to = pack;
    }
  }
}
__device__ __forceinline__ void turn_unit(uint4* unit, float) {
  const uint4 x = *unit;
  *unit = make_uint4(tf32_round(__uint_as_float(x.x)), tf32_round(__uint_as_float(x.y)),
                     tf32_round(__uint_as_float(x.z)), tf32_round(__uint_as_float(x.w)));
}
__device__ __forceinline__ u32 low_halves(u32 a, u32 b) { return (a & 0xffffu) | b << 16; }
__device__ __forceinline__ u32 high_halves(u32 a, u32 b) { return a >> 16 | (b & 0xffff0000u); }
template <class Half>
__device__ __forceinline__ void turn_unit(uint4* unit, Half) {
  const uint4 a = unit[0], b = unit[1];
  unit[0] = make_uint4(low_halves(a.x, b.x), high_halves(a.x, b.x), low_halves(a.y, b.y), high_halves(a.y, b.y));
  unit[1] = make_uint4(low_halves(a.z, b.z), high_halves(a.z, b.z), low_halves(a.w, b.w), high_halves(a.w, b.w));
}
__device__ __forceinline__ void turn_units(u32* stage) {
#pragma unroll 2
  for (int unit = (int)threadIdx.x; unit < kUnits; unit += kThreads)
    turn_unit((uint4*)(stage + unit / (OUTS / kVec) * kPitch + unit % (OUTS / kVec) * kVec), T());
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    conv_few_channels_weight_grad(const T* images, const T* dy, float* parts, int tiles) {
  begin_kernel();
  extern __shared__ __align__(16) u32 memory[];
  u32* const patches = memory + STAGES * kStage;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, group = lane / 4, member = lane % 4;
  const int along_k = warp % WARPS_K, along_p = warp / WARPS_K;
  const int first_out = (int)blockIdx.y * OUTS;
  const bool wide = ALL_OUTS % kVec == 0 && (u64)dy % 16 == 0;
  const int begin = (int)((i64)tiles * blockIdx.x / gridDim.x);
  const int count = (int)((i64)tiles * (blockIdx.x + 1) / gridDim.x) - begin;

  // Where, from a quad's first word on, the terms of this lane lie.
  int terms[COLUMNS];
#pragma unroll
  for (int n = 0; n < COLUMNS; ++n) {
    const int term = (along_k * COLUMNS + n) * 8 + group, inside = term < kTerms ? term : 0;
    terms[n] = inside / kRun * (DILATION_H * kPatchRow) + inside % kRun + member * (kPair * kStrideW);
  }

  PatchPieces<kMine> pieces;
  pieces.read(images, Tile(begin), warp);
#pragma unroll
  for (int t = 0; t < STAGES - 1; ++t) {
    if (t < count) copy_units(memory + t * kStage, dy, Tile(begin + t), first_out, wide);
    end_copies();
  }
  float sums[kRows][COLUMNS][4] = {};
#pragma unroll 1
  for (int t = 0; t < count; ++t) {
    u32 *const stage = memory + t % STAGES * kStage, *const patch = patches + t % 2 * kPatch;
    pieces.put(warp, [&](int row, int at, T value) { put_in_patch(patch, row, at, value); });
    wait_for_copies<STAGES - 2>();
    turn_units(stage);
    __syncthreads();
    const int next = t + STAGES - 1;
    if (next < count) copy_units(memory + next % STAGES * kStage, dy, Tile(begin + next), first_out, wide);
    end_copies();
    if (t + 1 < count) pieces.read(images, Tile(begin + t + 1), warp);

#pragma unroll 1
    for (int step = along_p; step < kWords / 8; step += WARPS_P) {
      const int row = 2 * step / kRowQuads, along = 2 * step % kRowQuads;
      const u32* const at = patch + row * (STRIDE_H * kPatchRow) + along * (4 * kPair * kStrideW);
      const u32* const from = stage + (8 * step + member) * kPitch + 2 * group;
      u32 a[kRows][4];
#pragma unroll
      for (int i = 0; i < 2 * kRows; ++i) {
        const uint2 words = *(const uint2*)(from + i % 2 * 4 * kPitch + i / 2 * 16);
        a[i / 2][i % 2 * 2] = words.x;
        a[i / 2][i % 2 * 2 + 1] = words.y;
      }
#pragma unroll
      for (int n = 0; n < COLUMNS; ++n) {
        const u32* const b = at + terms[n];
#pragma unroll
        for (int r = 0; r < kRows; ++r) mma(sums[r][n], a[r], b[0], b[kNextQuad], T());
      }
    }
  }
  wait_for_copies();

  // Rows of warps that shared the pixels: the upper half of them hands its sums to the lower one, again and again.
  constexpr int kSums = kRows * COLUMNS * 4;
  float* const others = (float*)memory + lane;
#pragma unroll 1
  for (int rows = WARPS_P; rows > 1; rows = (rows + 1) / 2) {
    const int kept = (rows + 1) / 2;
    __syncthreads();
    if (along_p >= kept && along_p < rows)
#pragma unroll
      for (int i = 0; i < kSums; ++i)
        others[((along_p - kept) * WARPS_K + along_k) * (kSums * 32) + i * 32] =
            sums[i / (COLUMNS * 4)][i / 4 % COLUMNS][i % 4];
    __syncthreads();
    if (along_p < rows - kept)
#pragma unroll
      for (int i = 0; i < kSums; ++i)
        sums[i / (COLUMNS * 4)][i / 4 % COLUMNS][i % 4] +=
            others[(along_p * WARPS_K + along_k) * (kSums * 32) + i * 32];
  }
  if (along_p > 0) return;
  parts += (i64)blockIdx.x * (ALL_OUTS * kTerms);
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int r = i / (COLUMNS * 4), n = i / 4 % COLUMNS, u = i / 2 % 2;
    const int out = first_out + r * 16 + 2 * group + u;
    const int term = (along_k * COLUMNS + n) * 8 + 2 * member + i % 2;
    if (out < ALL_OUTS && term < kTerms) parts[(i64)out * kTerms + term] = sums[r][n][i % 4];
  }
}
