// The C library's functions under CUDA's names, and the intrinsics. The intrinsics that are approximate on the device
// are exact to rounding here.
#pragma once

#include "bits.h"

#define EMU_MATH1(name)                     \
  extern "C" float name##f(float) noexcept; \
  extern "C" double name(double) noexcept;  \
  inline float name(float x) { return name##f(x); }
#define EMU_MATH2(name)                            \
  extern "C" float name##f(float, float) noexcept; \
  extern "C" double name(double, double) noexcept; \
  inline float name(float x, float y) { return name##f(x, y); }
EMU_MATH1(sqrt)
EMU_MATH1(cbrt)
EMU_MATH1(exp)
EMU_MATH1(exp2)
EMU_MATH1(exp10)
EMU_MATH1(expm1)
EMU_MATH1(log)
EMU_MATH1(log2)
EMU_MATH1(log10)
EMU_MATH1(log1p)
EMU_MATH1(logb)
EMU_MATH1(sin)
EMU_MATH1(cos)
EMU_MATH1(tan)
EMU_MATH1(asin)
EMU_MATH1(acos)
EMU_MATH1(atan)
EMU_MATH1(sinh)
EMU_MATH1(cosh)
EMU_MATH1(tanh)
EMU_MATH1(asinh)
EMU_MATH1(acosh)
EMU_MATH1(atanh)
EMU_MATH1(erf)
EMU_MATH1(erfc)
EMU_MATH1(lgamma)
EMU_MATH1(tgamma)
EMU_MATH1(j0)
EMU_MATH1(j1)
EMU_MATH1(floor)
EMU_MATH1(ceil)
EMU_MATH1(trunc)
EMU_MATH1(round)
EMU_MATH1(rint)
EMU_MATH1(nearbyint)
EMU_MATH1(fabs)
EMU_MATH2(pow)
EMU_MATH2(fmod)
EMU_MATH2(remainder)
EMU_MATH2(atan2)
EMU_MATH2(hypot)
EMU_MATH2(fdim)
EMU_MATH2(copysign)
EMU_MATH2(nextafter)
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double fma(double, double, double) noexcept;
extern "C" float ldexpf(float, int) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float frexpf(float, int*) noexcept;
extern "C" double frexp(double, int*) noexcept;
extern "C" float modff(float, float*) noexcept;
extern "C" double modf(double, double*) noexcept;
extern "C" void sincosf(float, float*, float*) noexcept;
extern "C" void sincos(double, double*, double*) noexcept;
extern "C" long lrintf(float) noexcept;
extern "C" long lrint(double) noexcept;
extern "C" long long llrintf(float) noexcept;
extern "C" long long llrint(double) noexcept;
extern "C" long lroundf(float) noexcept;
extern "C" long lround(double) noexcept;
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline float ldexp(float x, int n) { return ldexpf(x, n); }
inline float scalbnf(float x, int n) { return ldexpf(x, n); }
inline double scalbn(double x, int n) { return ldexp(x, n); }
inline float pow(float x, int n) { return powf(x, static_cast<float>(n)); }
inline double pow(double x, int n) { return pow(x, static_cast<double>(n)); }
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double sinpi(double x) { return sin(remainder(x, 2.0) * 3.14159265358979323846); }
inline double cospi(double x) { return cos(remainder(x, 2.0) * 3.14159265358979323846); }
inline float sinpif(float x) { return static_cast<float>(sinpi(static_cast<double>(x))); }
inline float cospif(float x) { return static_cast<float>(cospi(static_cast<double>(x))); }
inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
inline float normcdff(float x) { return static_cast<float>(normcdf(static_cast<double>(x))); }

inline bool isnan(float x) { return x != x; }
inline bool isnan(double x) { return x != x; }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbitf(x) != 0; }
inline bool signbit(double x) { return __builtin_signbit(x) != 0; }

// As the hardware: a NaN loses against a number, and -0 is below +0, which the C library leaves open.
template <class T>
inline T emu_fmin(T x, T y) {
  if (x == y) return signbit(x) ? x : y;
  return x < y || y != y ? x : y;
}
template <class T>
inline T emu_fmax(T x, T y) {
  if (x == y) return signbit(x) ? y : x;
  return x > y || y != y ? x : y;
}
inline float fminf(float x, float y) { return emu_fmin(x, y); }
inline float fmaxf(float x, float y) { return emu_fmax(x, y); }
inline float fmin(float x, float y) { return emu_fmin(x, y); }
inline float fmax(float x, float y) { return emu_fmax(x, y); }
inline double fmin(double x, double y) { return emu_fmin(x, y); }
inline double fmax(double x, double y) { return emu_fmax(x, y); }
inline float min(float x, float y) { return emu_fmin(x, y); }
inline float max(float x, float y) { return emu_fmax(x, y); }
inline double min(double x, double y) { return emu_fmin(x, y); }
inline double max(double x, double y) { return emu_fmax(x, y); }
inline double min(float x, double y) { return emu_fmin<double>(x, y); }
inline double min(double x, float y) { return emu_fmin<double>(x, y); }
inline double max(float x, double y) { return emu_fmax<double>(x, y); }
inline double max(double x, float y) { return emu_fmax<double>(x, y); }

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
inline float fdividef(float x, float y) { return x / y; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
