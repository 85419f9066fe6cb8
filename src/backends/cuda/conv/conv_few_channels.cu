// y = x ∗ w, plus bias, then ReLU, after conv/conv_patch.cuh: a product of pixels by output channels over all terms
// of a sum, the taps and channels. A step of it takes two quads, of four words each; a run fills whole quads, and the
// last of its words are 0 where it does not. A word is a number in TF32, or two of 16 bits.
//
// A warp has 16 · TILES pixels and all OUTS channels of the block; a lane reads its words from the patch where its
// pixels and the quad say. Halves at odd places have no word of their own, so there is a second copy of the patch,
// which begins one number later. Weights lie as lanes need them.
//   ALL_OUTS   output channels of everything; OUTS: of a block, a multiple of 4 · kVec
//   WARPS      of a block
#include "conv/conv_patch.cuh"
#include "kernels/epilogue.cuh"

constexpr int kVec = 16 / sizeof(T);                     // neighbouring channels that a lane writes at once
constexpr int kPitch = (kPatchRow + kPair - 1) / kPair;  // words of a row of the patch
constexpr int kCopies = kPair == 2 && kStrideW % 2 == 1 ? 2 : 1;
constexpr int kCopy = kPatchHeight * kPitch + 8;  // words; a run's last quad may reach behind the patch
constexpr int kRunWords = (kRun + kPair - 1) / kPair, kRunQuads = (kRunWords + 3) / 4;
constexpr int kQuads = KERNEL_H * kRunQuads, kSteps = (kQuads + 1) / 2;
constexpr int kUnroll = kSteps <= 64 ? kSteps : 8;
constexpr int kOnTheWay = 8;        // pieces of a patch
constexpr int kColumns = OUTS / 8;  // of 8 channels, that one instruction computes

// Channel of column `column` of eight: such that a lane has kVec neighbours.
__device__ __forceinline__ int out_of(int eight, int column) {
  return eight / (kVec / 2) * 4 * kVec + column / 2 * kVec + eight % (kVec / 2) * 2 + column % 2;
}

__device__ __forceinline__ u32 bits_of(float x) { return tf32_round(x); }
template <class Half>
__device__ __forceinline__ u32 bits_of(Half x) {
  return x.bits;
}

// Word `member` of a quad of the weights of one channel.
__device__ __forceinline__ u32 weight_word(const T* weights, int out, int quad, int member) {
  const int row = quad / kRunQuads, word = quad % kRunQuads * 4 + member;
  u32 bits = 0;
#pragma unroll
  for (int i = 0; i < kPair; ++i) {
    const int along = word * kPair + i;
    if (out < ALL_OUTS && row < KERNEL_H && along < kRun)
      bits |= bits_of(weights[(i64)out * kTerms + row * kRun + along]) << 16 * i;
  }
  return bits;
}

__device__ __forceinline__ void put_in_patch(u32* patch, int row, int at, float value) {
  patch[row * kPitch + at] = tf32_round(value);
}
template <class Half>
__device__ __forceinline__ void put_in_patch(u32* patch, int row, int at, Half value) {
  u16* const place = (u16*)patch + row * (kPitch * 2) + at;
  *place = value.bits;
  if (kCopies == 2) place[kCopy * 2 - 1] = value.bits;
}

__device__ __forceinline__ uint4 words_of(const Pack<float, 4>& pack) {
  return make_uint4(__float_as_uint(pack.at[0]), __float_as_uint(pack.at[1]), __float_as_uint(pack.at[2]),
                    __float_as_uint(pack.at[3]));
}
template <class Half>
__device__ __forceinline__ uint4 words_of(const Pack<Half, 8>& pack) {
  const auto pair = [&](int i) { return (u32)pack.at[i].bits | (u32)pack.at[i + 1].bits << 16; };
  return make_uint4(pair(0), pair(2), pair(4), pair(6));
}
// At once: left to itself the compiler stores word by word here.
__device__ __forceinline__ void store_words(T* to, const uint4& words) {
#ifdef VARVE_EMULATED
  *(uint4*)to = words;
#else
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
#endif
}

// The compiler does not keep for the next tile what follows from it: registers are few.
__device__ __forceinline__ int computed_again(int x) {
#ifndef VARVE_EMULATED
  asm volatile("" : "+r"(x));
#endif
  return x;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 16 / WARPS)
    conv_few_channels(const T* images, const T* weights, const T* bias, T* out, int tiles) {
  begin_kernel();
  extern __shared__ __align__(16) u32 memory[];
  uint4* const factors = (uint4*)memory;  // [kSteps][kColumns / 2][lanes]
  T* const biases = (T*)(factors + kSteps * kColumns / 2 * 32);
  u32* const patch = (u32*)(biases + OUTS);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, group = lane / 4, member = lane % 4;
  const int first_out = (int)blockIdx.y * OUTS;
  const bool wide = ALL_OUTS % kVec == 0 && (u64)out % 16 == 0;

#pragma unroll 4
  for (int at = warp; at < kSteps * kColumns / 2; at += WARPS) {
    const int step = at / (kColumns / 2), pair = at % (kColumns / 2);
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = weight_word(weights, first_out + out_of(2 * pair + i / 2, group), 2 * step + i % 2, member);
    factors[at * 32 + lane] = make_uint4(words[0], words[1], words[2], words[3]);
  }
#if BIAS
  for (int i = (int)threadIdx.x; i < OUTS; i += 32 * WARPS)
    biases[i] = first_out + i < ALL_OUTS ? bias[first_out + i] : narrow<T>(0.0f);
#endif

  // Of the last quad of a run: what of this lane's word belongs to the run.
  const int rest = kRun - ((kRunQuads - 1) * 4 + member) * kPair;
  const u32 mask = rest >= kPair ? 0xffffffffu : rest == 1 ? 0xffffu : 0u;
  int pixels[TILES][2];  // words of the patch
#pragma unroll
  for (int i = 0; i < 2 * TILES; ++i) {
    const int pixel = (warp * 2 * TILES + i) * 8 + group, inside = pixel < TILE_H * TILE_W ? pixel : 0;
    const int at = inside / TILE_W * STRIDE_H * kPitch * kPair + inside % TILE_W * kStrideW;
    pixels[i / 2][i % 2] = at / kPair + at % kPair * kCopy + member;
  }

#pragma unroll 1
  for (int number = (int)blockIdx.x; number < tiles; number += (int)gridDim.x) {
    for (int first = warp; first < kPieces; first += WARPS * kOnTheWay) {
      PatchPieces<kOnTheWay> pieces;
      pieces.read(images, Tile(number), first);
      pieces.put(first, [&](int row, int at, T value) { put_in_patch(patch, row, at, value); });
    }
    __syncthreads();

    float sums[TILES][kColumns][4] = {};
#pragma unroll kUnroll
    for (int step = 0; step < kSteps; ++step) {
      u32 a[TILES][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int quad = 2 * step + half, row = quad / kRunQuads, along = quad % kRunQuads;
        const int offset = row * DILATION_H * kPitch + along * 4;
        const bool last = along == kRunQuads - 1;
#pragma unroll
        for (int i = 0; i < 2 * TILES; ++i) {
          u32 word = 0;
          if (quad < kQuads) word = patch[pixels[i / 2][i % 2] + offset];
          a[i / 2][2 * half + i % 2] = last ? word & mask : word;
        }
      }
#pragma unroll
      for (int pair = 0; pair < kColumns / 2; ++pair) {
        const uint4 b = factors[(step * (kColumns / 2) + pair) * 32 + lane];
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
          mma(sums[t][2 * pair], a[t], b.x, b.y, T());
          mma(sums[t][2 * pair + 1], a[t], b.z, b.w, T());
        }
      }
    }
    __syncthreads();

    const Tile tile(computed_again(number));
#pragma unroll
    for (int i = 0; i < 2 * TILES; ++i) {
      const int pixel = computed_again((warp * 2 * TILES + i) * 8 + group);
      const int y = tile.y + pixel / TILE_W, x = tile.x + pixel % TILE_W;
      if (pixel >= TILE_H * TILE_W || y >= OUT_H || x >= OUT_W) continue;
      T* const to = out + (((i64)tile.image * OUT_H + y) * OUT_W + x) * ALL_OUTS + first_out;
#pragma unroll
      for (int first = 0; first < OUTS; first += 4 * kVec) {
        const int column = first + kVec * member;
        Pack<T, kVec> pack;
#pragma unroll
        for (int v = 0; v < kVec; ++v)
          pack.at[v] = narrow<T>(finished(sums[i / 2][first / 8 + v / 2][i % 2 * 2 + v % 2], biases, column + v));
        if (wide && column + kVec <= ALL_OUTS - first_out)
          store_words(to + column, words_of(pack));
        else
          store_pack(to + column, pack, ALL_OUTS - first_out - column, false);
      }
    }
  }
}
