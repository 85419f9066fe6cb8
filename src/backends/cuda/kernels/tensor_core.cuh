// d += a·b of 16 × 8 words and 8 words × 8, by a warp on tensor cores: a word is a number in TF32, or two of 16 bits.
#pragma once

#include "kernels/prelude.cuh"

#ifdef VARVE_EMULATED
#define MMA(instruction, emulated) \
  const u32 b[2] = {b0, b1};       \
  emulated(d, a, b, d)
#else
#define MMA(instruction, emulated)                                                                       \
  asm("mma.sync.aligned." instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                   \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
#endif
__device__ __forceinline__ void mma_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  MMA("m16n8k8.row.col.f32.tf32.tf32.f32", emu_mma_m16n8k8_tf32);
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  MMA("m16n8k16.row.col.f32.bf16.bf16.f32", emu_mma_m16n8k16_bf16);
}
__device__ __forceinline__ void mma_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  MMA("m16n8k16.row.col.f32.f16.f16.f32", emu_mma_m16n8k16_f16);
}
#undef MMA
// By the type of the numbers.
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, float) { mma_tf32(d, a, b0, b1); }
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16) { mma_bf16(d, a, b0, b1); }
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f16) { mma_f16(d, a, b0, b1); }
