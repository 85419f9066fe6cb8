// Convolutions of images of a few pixels. Output pixel p and input pixel q meet at one tap at most, so that a
// convolution is a product of matrices for each pair of pixels that meet, and padding is never multiplied:
//   y[p] = Σ x[q] · w[tap(p, q)]ᵀ    dx[q] = Σ dy[p] · w[tap(p, q)]    dw[t] = Σ dy[p]ᵀ · x[q] of the pairs with tap t
// A block has all that it multiplies in shared memory, as tiles of rows of words, and multiplies on tensor cores: a
// word is a number rounded to TF32, or two of 16 bits (kernels/tensor_core.cuh).
//   T                       float, bf16 or f16
//   BATCH, PADDED           images, and with images of zeros that fill up the last tiles
//   OUT_PIXELS, IN_PIXELS   of an image
//   OUT_CHANNELS, IN_CHANNELS
//   TAPS, USED_TAPS         of the kernel, and those at which pixels meet
//   USED                    list of these
//   JOINS                   for each p and q: the number in USED of the tap at which they meet, or -1
//   THREADS                 of a block
#pragma once

#include "kernels/async_copy.cuh"
#include "kernels/tensor_core.cuh"

#include "generated.cuh"

#define PACK (4 / (int)sizeof(T))  // numbers of a word
#define SHARE (2 * PACK)           // a lane's share of the numbers that one instruction sums over, of four lanes

// The compiler folds these: all loops over pixels and taps are unrolled.
__device__ __forceinline__ constexpr int join(int p, int q) {
  constexpr int of[] = {JOINS};
  return of[p * IN_PIXELS + q];
}
__device__ __forceinline__ constexpr int used(int number) {
  constexpr int of[] = {USED};
  return of[number];
}

// Rows of WORDS words, 16 at least. Pieces of 16 bytes change places, the same way in GROUP rows: lanes that read two
// pieces of each of four such groups meet different banks.
template <int WORDS, int GROUP>
struct Tile {
  static constexpr int kWords = WORDS, kGroup = GROUP;
  static __device__ __forceinline__ int place(int row, int word) {
    return ((row * WORDS + word) / 4 ^ row / GROUP % 4 * 2) * 4 + word % 4;
  }
};

// ROWS rows of a tile and WORDS of their words, from the first ones on, by all threads. `from` is what becomes row 0,
// rows PITCH numbers apart; row COUNT and those that follow are zeros.
template <class Place, int ROWS, int WORDS, int PITCH, int COUNT>
__device__ __forceinline__ void copy_part(u32* tile, int first_row, int first_word, const T* from) {
  constexpr int kPieces = WORDS / 4, kStep = THREADS / kPieces;  // of a row; rows at a time
  static_assert(THREADS % kPieces == 0 && kStep % (4 * Place::kGroup) == 0, "a thread's pieces lie at equal distances");
  const int above = (int)threadIdx.x / kPieces, row = first_row + above;
  const int word = first_word + (int)threadIdx.x % kPieces * 4;
  tile += Place::place(row, word);
  from += (i64)row * PITCH + word * PACK;
#pragma unroll
  for (int i = 0; i < ROWS; i += kStep)
    if (i + kStep <= ROWS || i + above < ROWS)
      copy_piece(tile + i * Place::kWords, from + (i64)i * PITCH, row + i < COUNT);
}

// To the nearest TF32, of whose word tensor cores read the upper 19 bits. NaN stays what it is.
__device__ __forceinline__ u32 tf32_rounded(u32 word, float) {
  const float x = __uint_as_float(word);
  return x == x ? word + 0x1000u : word;
}
template <class Half>
__device__ __forceinline__ u32 tf32_rounded(u32 word, Half) {
  return word;
}

// Two neighbouring words, ready to be multiplied.
__device__ __forceinline__ uint2 two_words(const u32* at) {
  const uint2 words = *(const uint2*)at;
  return make_uint2(tf32_rounded(words.x, T{}), tf32_rounded(words.y, T{}));
}

// A tile whose columns lie along the sum.
template <int WORDS>
using Transposed = Tile<WORDS, SHARE>;

// Where a lane finds its SHARE rows of two neighbouring columns there.
template <int WORDS>
struct Across {
  int at[SHARE];
  __device__ __forceinline__ explicit Across(int column) {
    for (int i = 0; i < SHARE; ++i) at[i] = Transposed<WORDS>::place((int)threadIdx.x % 4 * SHARE + i, column / PACK);
  }
  // Word v of column e is of[2 · v + e], as a left operand wants it.
  __device__ __forceinline__ void read(const u32* tile, u32 (&of)[4]) const { read(tile, of, T{}); }

 private:
  __device__ __forceinline__ void read(const u32* tile, u32 (&of)[4], float) const {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const uint2 columns = two_words(tile + at[v]);
      of[2 * v] = columns.x;
      of[2 * v + 1] = columns.y;
    }
  }
  template <class Half>
  __device__ __forceinline__ void read(const u32* tile, u32 (&of)[4], Half) const {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const u32 first = tile[at[2 * v]], second = tile[at[2 * v + 1]];
      of[2 * v] = (first & 0xffffu) | second << 16;
      of[2 * v + 1] = first >> 16 | (second & 0xffff0000u);
    }
  }
};
