// What every kernel text follows: number types and their conversions, sums over warps and blocks, the error word.
// Self-contained: a user's machine has no CUDA headers. Texts that run where there is no GPU (VARVE_EMULATED, see
// tests/cuda_emulator) find substitutes for machine instructions there.
#pragma once

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char bool_t;
enum u8 : unsigned char {};  // apart from bool_t, to which any number but 0 is 1

struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};

__device__ __forceinline__ float bf16_to_f32(u16 bits) { return __uint_as_float((u32)bits << 16); }
// Nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ u16 f32_to_bf16(float x) {
#if !defined(VARVE_EMULATED) && __CUDA_ARCH__ >= 800
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#else
  u32 bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)((bits >> 16) | 0x40u);
  return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}
__device__ __forceinline__ float f16_to_f32(u16 bits) {
#ifdef VARVE_EMULATED
  return emu_cvt_f32_f16(bits);
#else
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
#endif
}
__device__ __forceinline__ u16 f32_to_f16(float x) {
#ifdef VARVE_EMULATED
  return emu_cvt_f16_f32(x);
#else
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#endif
}

// A kernel of a recorded step may begin while those it follows still run (context.h). Each lets those that follow it do
// so, and before it reads what others write, or writes at all, waits until the earlier ones have ended.
__device__ __forceinline__ void let_next_begin() {
#if !defined(VARVE_EMULATED) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_earlier() {
#ifdef VARVE_EMULATED
  emu_wait_for_earlier();
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// What every kernel does first, unless it has something to do before it waits.
__device__ __forceinline__ void begin_kernel() {
  let_next_begin();
  wait_for_earlier();
}

// Two numbers of 16 bits in a word, as they lie in memory: the first one below.
__device__ __forceinline__ u32 bf16_pair(float first, float second) {
#ifdef VARVE_EMULATED
  return (u32)f32_to_bf16(first) | (u32)f32_to_bf16(second) << 16;
#else
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#endif
}
__device__ __forceinline__ u32 f16_pair(float first, float second) {
#ifdef VARVE_EMULATED
  return (u32)f32_to_f16(first) | (u32)f32_to_f16(second) << 16;
#else
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#endif
}

// What a type is computed in: float, double, or i64 for integers and flags.
template <class T>
struct Wide {
  typedef i64 type;
};
template <>
struct Wide<float> {
  typedef float type;
};
template <>
struct Wide<double> {
  typedef double type;
};
template <>
struct Wide<bf16> {
  typedef float type;
};
template <>
struct Wide<f16> {
  typedef float type;
};

// A stored element as a number of type W (float, double or i64), and back.
template <class W, class T>
__device__ __forceinline__ W widen(T x) {
  return (W)x;
}
template <class W>
__device__ __forceinline__ W widen(bf16 x) {
  return (W)bf16_to_f32(x.bits);
}
template <class W>
__device__ __forceinline__ W widen(f16 x) {
  return (W)f16_to_f32(x.bits);
}
template <class T>
struct Narrow {
  template <class W>
  static __device__ __forceinline__ T of(W x) {
    return (T)x;
  }
};
template <>
struct Narrow<bf16> {
  template <class W>
  static __device__ __forceinline__ bf16 of(W x) {
    bf16 r;
    r.bits = f32_to_bf16((float)x);
    return r;
  }
};
template <>
struct Narrow<f16> {
  template <class W>
  static __device__ __forceinline__ f16 of(W x) {
    f16 r;
    r.bits = f32_to_f16((float)x);
    return r;
  }
};
template <>
struct Narrow<bool_t> {
  template <class W>
  static __device__ __forceinline__ bool_t of(W x) {
    return x != (W)0;
  }
};
template <class T, class W>
__device__ __forceinline__ T narrow(W x) {
  return Narrow<T>::of(x);
}

// Sums in a fixed order: the same bits at every run.
template <class T>
__device__ __forceinline__ T warp_sum(T x) {
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
template <class T>
__device__ __forceinline__ T warp_max(T x) {
  for (int d = 16; d > 0; d >>= 1) {
    T y = __shfl_xor_sync(0xffffffffu, x, d);
    x = (y > x || y != y) ? y : x;  // NaN wins
  }
  return x;
}
// For blocks of whole warps; every thread gets the sum. `shared` holds 32 elements and may be used again after a
// barrier.
template <class T>
__device__ __forceinline__ T block_sum(T x, T* shared) {
  x = warp_sum(x);
  int warps = (int)(blockDim.x * blockDim.y + 31) / 32;
  if (warps == 1) return x;
  int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);
  if (thread % 32 == 0) shared[thread / 32] = x;
  __syncthreads();
  return warp_sum(thread % 32 < warps ? shared[thread % 32] : (T)0);
}
template <class T>
__device__ __forceinline__ T block_max(T x, T* shared) {
  x = warp_max(x);
  int warps = (int)(blockDim.x * blockDim.y + 31) / 32;
  if (warps == 1) return x;
  int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);
  if (thread % 32 == 0) shared[thread / 32] = x;
  __syncthreads();
  return warp_max(shared[thread % 32 < warps ? thread % 32 : 0]);
}

// Notes a value that must not be used, unless an earlier kernel did: what goes wrong first is the cause. Number of the
// text above, the value's low 48 bits below; one store of 8 bytes into memory shared with the processor.
__device__ __forceinline__ void note(u64* errors, int text, i64 value) {
  volatile u64* word = errors;
  if (*word == 0) *word = ((u64)(text + 1) << 48) | ((u64)value & 0xffffffffffffull);
}
