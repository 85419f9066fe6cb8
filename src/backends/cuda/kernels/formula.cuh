// The primitives of formulas (varve/expr.h) on one element, in float, double and 64-bit integers. Comparisons and logic
// give 0 or 1. Integers wrap; dividing by zero, and its remainder, give 0.
#pragma once

#include "kernels/prelude.cuh"

template <class W>
__device__ __forceinline__ W p_lt(W a, W b) {
  return a < b ? (W)1 : (W)0;
}
template <class W>
__device__ __forceinline__ W p_le(W a, W b) {
  return a <= b ? (W)1 : (W)0;
}
template <class W>
__device__ __forceinline__ W p_eq(W a, W b) {
  return a == b ? (W)1 : (W)0;
}
template <class W>
__device__ __forceinline__ W p_ne(W a, W b) {
  return a != b ? (W)1 : (W)0;
}
template <class W>
__device__ __forceinline__ W p_logical_and(W a, W b) {
  return a != (W)0 && b != (W)0 ? (W)1 : (W)0;
}
template <class W>
__device__ __forceinline__ W p_logical_or(W a, W b) {
  return a != (W)0 || b != (W)0 ? (W)1 : (W)0;
}
template <class W>
__device__ __forceinline__ W p_logical_not(W a) {
  return a == (W)0 ? (W)1 : (W)0;
}
template <class W>
__device__ __forceinline__ W p_is_nan(W a) {
  return a != a ? (W)1 : (W)0;
}
template <class W>
__device__ __forceinline__ W p_select(W c, W a, W b) {
  return c != (W)0 ? a : b;
}
// A comparison with NaN is false and gives b, so only a NaN in a is left to pass on.
template <class W>
__device__ __forceinline__ W p_min(W a, W b) {
  return a != a || a < b ? a : b;
}
template <class W>
__device__ __forceinline__ W p_max(W a, W b) {
  return a != a || a > b ? a : b;
}

// ---- floating point; the specialisations for integers follow

template <class W>
__device__ __forceinline__ W p_add(W a, W b) {
  return a + b;
}
template <class W>
__device__ __forceinline__ W p_sub(W a, W b) {
  return a - b;
}
template <class W>
__device__ __forceinline__ W p_mul(W a, W b) {
  return a * b;
}
template <class W>
__device__ __forceinline__ W p_div(W a, W b) {
  return a / b;
}
template <class W>
__device__ __forceinline__ W p_neg(W a) {
  return -a;
}
template <class W>
__device__ __forceinline__ W p_sign(W a) {
  return a > 0 ? (W)1 : a < 0 ? (W)-1 : a != a ? a : (W)0;
}
__device__ __forceinline__ float p_abs(float a) { return fabsf(a); }
__device__ __forceinline__ double p_abs(double a) { return fabs(a); }
__device__ __forceinline__ float p_floor(float a) { return floorf(a); }
__device__ __forceinline__ double p_floor(double a) { return floor(a); }
__device__ __forceinline__ float p_ceil(float a) { return ceilf(a); }
__device__ __forceinline__ double p_ceil(double a) { return ceil(a); }
__device__ __forceinline__ float p_round(float a) { return rintf(a); }
__device__ __forceinline__ double p_round(double a) { return rint(a); }
__device__ __forceinline__ float p_trunc(float a) { return truncf(a); }
__device__ __forceinline__ double p_trunc(double a) { return trunc(a); }
__device__ __forceinline__ float p_exp(float a) { return expf(a); }
__device__ __forceinline__ double p_exp(double a) { return exp(a); }
__device__ __forceinline__ float p_expm1(float a) { return expm1f(a); }
__device__ __forceinline__ double p_expm1(double a) { return expm1(a); }
__device__ __forceinline__ float p_log(float a) { return logf(a); }
__device__ __forceinline__ double p_log(double a) { return log(a); }
__device__ __forceinline__ float p_log1p(float a) { return log1pf(a); }
__device__ __forceinline__ double p_log1p(double a) { return log1p(a); }
__device__ __forceinline__ float p_sqrt(float a) { return sqrtf(a); }
__device__ __forceinline__ double p_sqrt(double a) { return sqrt(a); }
__device__ __forceinline__ float p_rsqrt(float a) { return rsqrtf(a); }
__device__ __forceinline__ double p_rsqrt(double a) { return rsqrt(a); }
__device__ __forceinline__ float p_sin(float a) { return sinf(a); }
__device__ __forceinline__ double p_sin(double a) { return sin(a); }
__device__ __forceinline__ float p_cos(float a) { return cosf(a); }
__device__ __forceinline__ double p_cos(double a) { return cos(a); }
__device__ __forceinline__ float p_tan(float a) { return tanf(a); }
__device__ __forceinline__ double p_tan(double a) { return tan(a); }
__device__ __forceinline__ float p_asin(float a) { return asinf(a); }
__device__ __forceinline__ double p_asin(double a) { return asin(a); }
__device__ __forceinline__ float p_acos(float a) { return acosf(a); }
__device__ __forceinline__ double p_acos(double a) { return acos(a); }
__device__ __forceinline__ float p_atan(float a) { return atanf(a); }
__device__ __forceinline__ double p_atan(double a) { return atan(a); }
__device__ __forceinline__ float p_sinh(float a) { return sinhf(a); }
__device__ __forceinline__ double p_sinh(double a) { return sinh(a); }
__device__ __forceinline__ float p_cosh(float a) { return coshf(a); }
__device__ __forceinline__ double p_cosh(double a) { return cosh(a); }
__device__ __forceinline__ float p_tanh(float a) { return tanhf(a); }
__device__ __forceinline__ double p_tanh(double a) { return tanh(a); }
__device__ __forceinline__ float p_erf(float a) { return erff(a); }
__device__ __forceinline__ double p_erf(double a) { return erf(a); }
__device__ __forceinline__ float p_erfc(float a) { return erfcf(a); }
__device__ __forceinline__ double p_erfc(double a) { return erfc(a); }
// 1 / (1 + e) where e is not negative: far from where the short way of dividing would fail.
__device__ __forceinline__ float p_inverse_above_one(float e) { return __fdividef(1.0f, 1.0f + e); }
__device__ __forceinline__ double p_inverse_above_one(double e) { return 1 / (1 + e); }
__device__ __forceinline__ float p_pow(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double p_pow(double a, double b) { return pow(a, b); }
__device__ __forceinline__ float p_atan2(float a, float b) { return atan2f(a, b); }
__device__ __forceinline__ double p_atan2(double a, double b) { return atan2(a, b); }
// The remainder with the sign of the divisor, as in Python.
__device__ __forceinline__ float p_mod(float a, float b) {
  float r = fmodf(a, b);
  if (r == 0) return copysignf(0.0f, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ double p_mod(double a, double b) {
  double r = fmod(a, b);
  if (r == 0) return copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

// ---- where all results are stored in 16 bits: good to 1e-5 of the value, which is far below their last place, in a
// third of the instructions

#ifdef VARVE_EMULATED
__device__ __forceinline__ float h_exp2(float a) { return exp2f(a); }
__device__ __forceinline__ float h_inverse(float a) { return 1.0f / a; }
#else
__device__ __forceinline__ float h_exp2(float a) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
__device__ __forceinline__ float h_inverse(float a) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
#endif
__device__ __forceinline__ float h_exp(float a) { return h_exp2(a * 1.44269504f); }
__device__ __forceinline__ float h_inverse_above_one(float e) { return h_inverse(1.0f + e); }
__device__ __forceinline__ float h_erfc(float a) {
  const float x = fabsf(a), t = h_inverse(fmaf(0.45f, x, 1.0f));
  float sum = -0.135845856f;  // erfc(x) exp(x²) / t as a polynomial in t, fitted
  sum = fmaf(sum, t, 0.292208605f);
  sum = fmaf(sum, t, 0.0894935427f);
  sum = fmaf(sum, t, 0.248459961f);
  sum = fmaf(sum, t, 0.251706721f);
  sum = fmaf(sum, t, 0.253967708f);
  const float tail = sum * t * h_exp(-x * x);
  return a < 0 ? 2.0f - tail : tail;
}

// ---- integers

__device__ __forceinline__ i64 p_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
__device__ __forceinline__ i64 p_sub(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
__device__ __forceinline__ i64 p_mul(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
__device__ __forceinline__ i64 p_neg(i64 a) { return (i64)(0ull - (u64)a); }
__device__ __forceinline__ i64 p_abs(i64 a) { return a < 0 ? p_neg(a) : a; }
__device__ __forceinline__ i64 p_sign(i64 a) { return (a > 0) - (a < 0); }
__device__ __forceinline__ i64 p_floor(i64 a) { return a; }
__device__ __forceinline__ i64 p_ceil(i64 a) { return a; }
__device__ __forceinline__ i64 p_round(i64 a) { return a; }
__device__ __forceinline__ i64 p_trunc(i64 a) { return a; }
// Towards zero; the one quotient that does not fit wraps to itself.
__device__ __forceinline__ i64 p_div(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? p_neg(a) : a / b; }
__device__ __forceinline__ i64 p_mod(i64 a, i64 b) {
  if (b == 0 || b == -1) return 0;
  i64 r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// By squaring. A negative exponent gives the fraction's whole part, and 0 for zero.
__device__ inline i64 p_pow(i64 base, i64 exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  }
  u64 result = 1;
  for (u64 square = (u64)base, n = (u64)exponent; n != 0; n >>= 1, square *= square)
    if (n & 1) result *= square;
  return (i64)result;
}
