// The costly primitives in f64: exp, log, tanh and their kin. erf, erfc and pow are the
// standard library's.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile/kernels_math_f64.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/simd/math_exp-inl.h"
#include "backends/cpu/tile/kernels_simd.h"
#include "backends/cpu/tile/loops-inl.h"
#include "backends/cpu/tile/math_trig-inl.h"
#include "backends/cpu/tile/scalar_math.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {
using expr::Prim;

struct Sigmoid {
  template <class D, class V>
  static HWY_INLINE V run(D d, V x) {
    return sigmoid(d, x);
  }
};

template <Prim prim>
struct Math {
  template <class D, class V>
  static HWY_INLINE V run(D d, V x) {
    if constexpr (prim == Prim::exp) return exp(d, x);
    if constexpr (prim == Prim::expm1) return expm1(d, x);
    if constexpr (prim == Prim::log) return log(d, x);
    if constexpr (prim == Prim::log1p) return log1p(d, x);
    if constexpr (prim == Prim::sin) return sin(d, x);
    if constexpr (prim == Prim::cos) return hn::Cos(d, x);
    if constexpr (prim == Prim::tan) return tan(d, x);
    if constexpr (prim == Prim::asin) return hn::Asin(d, x);
    if constexpr (prim == Prim::acos) return hn::Acos(d, x);
    if constexpr (prim == Prim::atan) return atan(d, x);
    if constexpr (prim == Prim::sinh) return sinh(d, x);
    if constexpr (prim == Prim::cosh) return cosh(d, x);
    if constexpr (prim == Prim::tanh) return tanh(d, x);
  }
  template <class D, class V>
  static HWY_INLINE V run(D d, V a, V b) {
    if constexpr (prim == Prim::atan2) return atan2(d, a, b);
  }
};

double sin_of(double x) { return std::sin(x); }
double cos_of(double x) { return std::cos(x); }
double tan_of(double x) { return std::tan(x); }
double erf_of(double x) { return std::erf(x); }
double erfc_of(double x) { return std::erfc(x); }
double pow_of(double x, double y) { return std::pow(x, y); }

KernelFn math(Prim prim) {
  using T = double;
  switch (prim) {
    case Prim::exp:
      return &unary<T, Math<Prim::exp>>;
    case Prim::expm1:
      return &unary<T, Math<Prim::expm1>>;
    case Prim::log:
      return &unary<T, Math<Prim::log>>;
    case Prim::log1p:
      return &unary<T, Math<Prim::log1p>>;
    case Prim::sin:
      return &unary_within_limit<T, Math<Prim::sin>, &sin_of>;
    case Prim::cos:
      return &unary_within_limit<T, Math<Prim::cos>, &cos_of>;
    case Prim::tan:
      return &unary_within_limit<T, Math<Prim::tan>, &tan_of>;
    case Prim::asin:
      return &unary<T, Math<Prim::asin>>;
    case Prim::acos:
      return &unary<T, Math<Prim::acos>>;
    case Prim::atan:
      return &unary<T, Math<Prim::atan>>;
    case Prim::sinh:
      return &unary<T, Math<Prim::sinh>>;
    case Prim::cosh:
      return &unary<T, Math<Prim::cosh>>;
    case Prim::tanh:
      return &unary<T, Math<Prim::tanh>>;
    case Prim::atan2:
      return &binary<T, Math<Prim::atan2>>;
    case Prim::erf:
      return &scalar_unary<T, &erf_of>;
    case Prim::erfc:
      return &scalar_unary<T, &erfc_of>;
    case Prim::pow:
      return &scalar_binary<T, &pow_of>;
    case Prim::mod:
      return &scalar_binary<T, &python_mod<T>>;
    default:
      return nullptr;
  }
}
KernelFn sigmoid_fn() { return &unary<double, Sigmoid>; }

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(math);
HWY_EXPORT(sigmoid_fn);

KernelFn math_kernel_f64(expr::Prim prim) { return HWY_DYNAMIC_DISPATCH(math)(prim); }
KernelFn sigmoid_kernel_f64() { return HWY_DYNAMIC_DISPATCH(sigmoid_fn)(); }
}  // namespace varve::cpu
#endif
