// Integers, their bits, and conversions.
#pragma once

#include "types.h"

inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int hi, int lo) {
  return __longlong_as_double((static_cast<long long>(hi) << 32) | static_cast<unsigned>(lo));
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned s = selector >> (4 * i);
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (s & 7))) & 0xFF;
    if (s & 8) byte = byte & 0x80 ? 0xFF : 0;  // replicates the sign
    result |= byte << (8 * i);
  }
  return result;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(hi) << 32 | lo) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(hi) << 32 | lo) >> (shift & 31));
}

template <class T>
constexpr T emu_min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T emu_max(T a, T b) {
  return a < b ? b : a;
}
#define EMU_MIN_MAX(T, A, B)                             \
  constexpr T min(A a, B b) { return emu_min<T>(a, b); } \
  constexpr T max(A a, B b) { return emu_max<T>(a, b); }
EMU_MIN_MAX(int, int, int)
EMU_MIN_MAX(unsigned, unsigned, unsigned)
EMU_MIN_MAX(unsigned, int, unsigned)
EMU_MIN_MAX(unsigned, unsigned, int)
EMU_MIN_MAX(long, long, long)
EMU_MIN_MAX(unsigned long, unsigned long, unsigned long)
EMU_MIN_MAX(unsigned long, long, unsigned long)
EMU_MIN_MAX(unsigned long, unsigned long, long)
EMU_MIN_MAX(long long, long long, long long)
EMU_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
EMU_MIN_MAX(unsigned long long, long long, unsigned long long)
EMU_MIN_MAX(unsigned long long, unsigned long long, long long)

inline int abs(int x) { return x < 0 ? -x : x; }
inline long abs(long x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }
inline long long llabs(long long x) { return abs(x); }

// Rounded, then clamped to the range of the target; a NaN gives zero, as in the hardware.
template <class I>
inline I emu_to_integer(double x) {
  constexpr bool is_signed = I(-1) < I(0);
  constexpr int bits = 8 * sizeof(I);
  constexpr I highest = is_signed ? I((static_cast<unsigned long long>(1) << (bits - 1)) - 1) : I(-1);
  constexpr I lowest = is_signed ? I(-highest - 1) : I(0);
  double end = __builtin_ldexp(1.0, is_signed ? bits - 1 : bits);
  if (x != x) return 0;
  if (x >= end) return highest;
  if (x <= (is_signed ? -end : 0.0)) return lowest;
  return static_cast<I>(x);
}
#define EMU_TO_INTEGER(I, from, F, to)                                                 \
  inline I __##from##2##to##_rn(F x) { return emu_to_integer<I>(__builtin_rint(x)); }  \
  inline I __##from##2##to##_rz(F x) { return emu_to_integer<I>(__builtin_trunc(x)); } \
  inline I __##from##2##to##_rd(F x) { return emu_to_integer<I>(__builtin_floor(x)); } \
  inline I __##from##2##to##_ru(F x) { return emu_to_integer<I>(__builtin_ceil(x)); }
EMU_TO_INTEGER(int, float, float, int)
EMU_TO_INTEGER(unsigned, float, float, uint)
EMU_TO_INTEGER(long long, float, float, ll)
EMU_TO_INTEGER(unsigned long long, float, float, ull)
EMU_TO_INTEGER(int, double, double, int)
EMU_TO_INTEGER(unsigned, double, double, uint)
EMU_TO_INTEGER(long long, double, double, ll)
EMU_TO_INTEGER(unsigned long long, double, double, ull)
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

// Binary16, both ways; to binary16 rounds to nearest even.
inline float emu_cvt_f32_f16(unsigned short half) {
  unsigned sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3FFu;
  if (exponent == 31) return __uint_as_float(sign | 0x7F800000u | fraction << 13);
  if (exponent != 0) return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}
inline unsigned short emu_cvt_f16_f32(float x) {
  unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return 0x7FFF;           // the hardware's one NaN
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {                        // subnormal: the addition rounds at 2^-24
    float aligned = __uint_as_float(magnitude) + 0.5f;
    return static_cast<unsigned short>(sign | (__float_as_uint(aligned) - 0x3F000000u));
  }
  unsigned rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return static_cast<unsigned short>(sign | ((rounded - 0x38000000u) >> 13));
}
// Rounds to tf32 as cvt.rna does: nearest, ties away from zero.
inline float emu_tf32(float x) {
  unsigned bits = __float_as_uint(x);
  if ((bits & 0x7F800000u) == 0x7F800000u) return x;
  return __uint_as_float((bits + 0x1000u) & ~0x1FFFu);
}
