// Products of the recurrent kernels by tensor cores: weights are the left operand, whose fragments stay with their
// thread for all steps, and sequences are the columns of the right one. Operands are TENSOR_TF32, TENSOR_BF16 or
// TENSOR_F16; sums are float.
#pragma once

#include "kernels/tensor_core.cuh"

#include "recurrent/recurrent.cuh"

#if defined(TENSOR_TF32)
#define TILE 8  // of the sum in one instruction
typedef float OPERAND;
__device__ __forceinline__ OPERAND operand(float x) {
#ifdef VARVE_EMULATED
  return emu_tf32(x);
#else
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
#endif
}
#else
#define TILE 16
#ifdef TENSOR_BF16
typedef bf16 OPERAND;
#else
typedef f16 OPERAND;
#endif
__device__ __forceinline__ OPERAND operand(float x) { return narrow<OPERAND>(x); }
#endif

// d += a·b of 16 × TILE and TILE × 8.
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if defined(TENSOR_TF32)
  mma_tf32(d, a, b0, b1);
#elif defined(TENSOR_BF16)
  mma_bf16(d, a, b0, b1);
#else
  mma_f16(d, a, b0, b1);
#endif
}

// Which of the sum's terms a lane brings to a tile: WORDS words, each of one number or of two neighbours. The order
// within a tile is ours to choose, as both operands have it: a lane's terms are neighbours, and those of two tiles
// together are 16 bytes of a sequence's row in shared memory.
#define MEMBER ((int)threadIdx.x % 4)       // of four lanes that share a row of the left operand, and a sequence
#define FAMILY ((int)threadIdx.x % 32 / 4)  // which row, and which sequence
#define LANE_TERMS (TILE / 4)
#define COLUMNS_USED (ROWS < 8 ? 8 : ROWS)  // four sequences take every second column, so that every lane has one
#define COLUMN_OF(row) (ROWS == 4 ? 2 * (row) : (row))

// Where term k of a sequence stands, in rows of ROW operands. An odd number of 64 bytes: no two lanes of eight meet in
// a bank.
template <int ROW>
__device__ __forceinline__ int term_at(int k, int row) {
  const int tile = k / TILE, member = k % TILE / LANE_TERMS;
  return COLUMN_OF(row) * ROW + tile / 2 * (2 * TILE) + member * (2 * LANE_TERMS) + tile % 2 * LANE_TERMS +
         k % LANE_TERMS;
}
__host__ __device__ constexpr int pitch_of(int tiles) { return ((tiles + 1) / 2 | 1) * 2 * TILE; }

// The left operand of one warp: COUNT fragments, of which the first IN_REGISTERS stay there and the others in shared
// memory. value(fragment, row, term) says what is in them.
template <int COUNT, int IN_REGISTERS>
struct Fragments {
  u32 kept[IN_REGISTERS][4];
  uint4* others;

  template <class Value>
  __device__ __forceinline__ void load(uint4* shared, const Value& value) {
    others = shared;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      u32 words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const int row = FAMILY + w % 2 * 8, term = MEMBER * LANE_TERMS + w / 2 * (LANE_TERMS / 2);
#ifdef TENSOR_TF32
        words[w] = __float_as_uint(operand(value(i, row, term)));
#else
        words[w] = (u32)operand(value(i, row, term)).bits | (u32)operand(value(i, row, term + 1)).bits << 16;
#endif
      }
      if (i < IN_REGISTERS)
#pragma unroll
        for (int w = 0; w < 4; ++w) kept[i][w] = words[w];
      else
        others[(i - IN_REGISTERS) * THREADS + threadIdx.x] = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
  __device__ __forceinline__ void get(int i, u32 (&words)[4]) const {
    if (i < IN_REGISTERS) {
#pragma unroll
      for (int w = 0; w < 4; ++w) words[w] = kept[i][w];
    } else {
      const uint4 four = others[(i - IN_REGISTERS) * THREADS + threadIdx.x];
      words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    }
  }
};

// x = Σ over COUNT tiles, for HIGH strips of 16 rows and all columns; fragments tile by tile, strip by strip. With
// CHAINS = 2 there are two sums for each, in turns: where warps are few, instructions need not wait for each other.
template <int COUNT, int HIGH, class Left>
__device__ __forceinline__ void multiply_tiles(const Left& left, const OPERAND* right, int pitch,
                                               float (&x)[COLUMNS_USED / 8][HIGH][4]) {
  float sums[CHAINS][COLUMNS_USED / 8][HIGH][4];
#pragma unroll
  for (int i = 0; i < CHAINS * COLUMNS_USED / 8 * HIGH * 4; ++i) ((float*)sums)[i] = 0;
  right += FAMILY * pitch + MEMBER * (2 * LANE_TERMS);
  const bool used = ROWS != 4 || FAMILY % 2 == 0;
#pragma unroll
  for (int tile = 0; tile < COUNT; tile += 2) {
    uint4 terms[COLUMNS_USED / 8];
#pragma unroll
    for (int n = 0; n < COLUMNS_USED / 8; ++n)
      terms[n] = used ? *(const uint4*)(right + n * 8 * pitch + tile * TILE) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int s = 0; s < HIGH; ++s) {
      u32 a[4];
      left.get(tile * HIGH + s, a);
#pragma unroll
      for (int n = 0; n < COLUMNS_USED / 8; ++n) mma(sums[0][n][s], a, terms[n].x, terms[n].y);
      if (tile + 1 == COUNT) continue;
      left.get((tile + 1) * HIGH + s, a);
#pragma unroll
      for (int n = 0; n < COLUMNS_USED / 8; ++n) mma(sums[CHAINS - 1][n][s], a, terms[n].z, terms[n].w);
    }
  }
#pragma unroll
  for (int n = 0; n < COLUMNS_USED / 8; ++n)
#pragma unroll
    for (int s = 0; s < HIGH; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        x[n][s][i] = CHAINS == 1 ? sums[0][n][s][i] : sums[0][n][s][i] + sums[CHAINS - 1][n][s][i];
}
