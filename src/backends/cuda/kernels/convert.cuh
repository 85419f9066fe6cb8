// Elements between memory and registers, by the rules of src/base/convert.h: floating to integer truncates and
// saturates, NaN gives 0; integer to narrower integer wraps; anything to a flag is `!= 0`; to a narrower floating type
// rounds once, to nearest even.
#pragma once

#include "kernels/prelude.cuh"

// A stored boolean: kept apart from unsigned char, whose bytes are numbers. Any byte but 0 is true.
struct flag {
  unsigned char byte;
};

// ---- read<W>(element): W is float, double or i64

template <class W, class T>
struct Reading {
  static __device__ __forceinline__ W of(T x) { return (W)x; }
};
template <class T>
__device__ __forceinline__ T saturated(double x, double low, double high, T least, T most) {
  return x != x ? (T)0 : x <= low ? least : x >= high ? most : (T)x;
}
__device__ __forceinline__ i64 whole_number(double x) {
  return saturated<i64>(x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807LL - 1,
                        9223372036854775807LL);
}
template <>
struct Reading<i64, float> {
  static __device__ __forceinline__ i64 of(float x) { return whole_number(x); }
};
template <>
struct Reading<i64, double> {
  static __device__ __forceinline__ i64 of(double x) { return whole_number(x); }
};
template <class W>
struct Reading<W, bf16> {
  static __device__ __forceinline__ W of(bf16 x) { return Reading<W, float>::of(bf16_to_f32(x.bits)); }
};
template <class W>
struct Reading<W, f16> {
  static __device__ __forceinline__ W of(f16 x) { return Reading<W, float>::of(f16_to_f32(x.bits)); }
};
template <class W>
struct Reading<W, flag> {
  static __device__ __forceinline__ W of(flag x) { return x.byte != 0 ? (W)1 : (W)0; }
};
template <class W, class T>
__device__ __forceinline__ W read(T x) {
  return Reading<W, T>::of(x);
}

// ---- write<T>(number): the number is a float, a double or an i64

// To float, inexact values to the neighbour with an odd last bit: what rounds that to 16 bits rounds as if once.
__device__ __forceinline__ float round_to_odd(double value) {
  float nearest = (float)value;
  double back = nearest;
  if (back == value || value != value) return nearest;
  u32 bits = __float_as_uint(nearest);
  if ((back < 0 ? -back : back) > (value < 0 ? -value : value)) --bits;
  return __uint_as_float(bits | 1u);
}
__device__ __forceinline__ float to_16_bits(float x) { return x; }
__device__ __forceinline__ float to_16_bits(double x) { return round_to_odd(x); }
__device__ __forceinline__ float to_16_bits(i64 x) { return round_to_odd((double)x); }

template <class T>
struct Writing {  // floating point
  template <class W>
  static __device__ __forceinline__ T of(W x) {
    return (T)x;
  }
};
template <>
struct Writing<bf16> {
  template <class W>
  static __device__ __forceinline__ bf16 of(W x) {
    bf16 r;
    r.bits = f32_to_bf16(to_16_bits(x));
    return r;
  }
};
template <>
struct Writing<f16> {
  template <class W>
  static __device__ __forceinline__ f16 of(W x) {
    f16 r;
    r.bits = f32_to_f16(to_16_bits(x));
    return r;
  }
};
template <>
struct Writing<flag> {
  template <class W>
  static __device__ __forceinline__ flag of(W x) {
    flag r;
    r.byte = x != (W)0;
    return r;
  }
};
template <>
struct Writing<i64> {
  static __device__ __forceinline__ i64 of(i64 x) { return x; }
  static __device__ __forceinline__ i64 of(double x) { return whole_number(x); }
  static __device__ __forceinline__ i64 of(float x) { return whole_number(x); }
};
template <>
struct Writing<int> {
  static __device__ __forceinline__ int of(i64 x) { return (int)(u32)(u64)x; }
  static __device__ __forceinline__ int of(double x) {
    return saturated<int>(x, -2147483648.0, 2147483647.0, -2147483647 - 1, 2147483647);
  }
  static __device__ __forceinline__ int of(float x) { return of((double)x); }
};
template <>
struct Writing<signed char> {
  static __device__ __forceinline__ signed char of(i64 x) { return (signed char)x; }
  static __device__ __forceinline__ signed char of(double x) {
    return saturated<signed char>(x, -128.0, 127.0, -128, 127);
  }
  static __device__ __forceinline__ signed char of(float x) { return of((double)x); }
};
template <>
struct Writing<u8> {
  static __device__ __forceinline__ u8 of(i64 x) { return (u8)x; }
  static __device__ __forceinline__ u8 of(double x) { return (u8)saturated<unsigned char>(x, 0.0, 255.0, 0, 255); }
  static __device__ __forceinline__ u8 of(float x) { return of((double)x); }
};
template <class T, class W>
__device__ __forceinline__ T write(W x) {
  return Writing<T>::of(x);
}
