#pragma once

#include "abi.h"

#define __device__
#define __host__
#define __global__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __maxnreg__(n)
// One OS thread runs one block at a time: what is thread-local to it is shared by the block.
#define __shared__ static thread_local

using size_t = __SIZE_TYPE__;
using ptrdiff_t = __PTRDIFF_TYPE__;

#define EMU_VECTOR(T, name, align2, align4)                     \
  struct name##1 {                                              \
    T x;                                                        \
  };                                                            \
  struct alignas(align2) name##2 {                              \
    T x, y;                                                     \
  };                                                            \
  struct alignas(align4) name##4 {                              \
    T x, y, z, w;                                               \
  };                                                            \
  constexpr name##1 make_##name##1(T x) { return {x}; }         \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; } \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define EMU_VECTOR3(T, name) \
  struct name##3 {           \
    T x, y, z;               \
  };                         \
  constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }

EMU_VECTOR(signed char, char, 2, 4)
EMU_VECTOR(unsigned char, uchar, 2, 4)
EMU_VECTOR(short, short, 4, 8)
EMU_VECTOR(unsigned short, ushort, 4, 8)
EMU_VECTOR(int, int, 8, 16)
EMU_VECTOR(unsigned, uint, 8, 16)
EMU_VECTOR(long, long, 16, 16)
EMU_VECTOR(unsigned long, ulong, 16, 16)
EMU_VECTOR(long long, longlong, 16, 16)
EMU_VECTOR(unsigned long long, ulonglong, 16, 16)
EMU_VECTOR(float, float, 8, 16)
EMU_VECTOR(double, double, 16, 16)
EMU_VECTOR3(signed char, char)
EMU_VECTOR3(unsigned char, uchar)
EMU_VECTOR3(short, short)
EMU_VECTOR3(unsigned short, ushort)
EMU_VECTOR3(int, int)
EMU_VECTOR3(long long, longlong)
EMU_VECTOR3(unsigned long long, ulonglong)
EMU_VECTOR3(float, float)
EMU_VECTOR3(double, double)
using uint3 = EmuIndex;
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

template <class T, class... Ts>
constexpr bool emu_one_of = (__is_same(T, Ts) || ...);
template <class T>
struct EmuSame {
  using type = T;
};
template <class T>
using emu_same = typename EmuSame<T>::type;  // keeps an argument out of deduction
