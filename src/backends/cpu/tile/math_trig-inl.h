// Circular functions in f32 and f64, for one instruction set.
#if defined(VARVE_TILE_MATH_TRIG_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_TILE_MATH_TRIG_INL_H
#undef VARVE_TILE_MATH_TRIG_INL_H
#else
#define VARVE_TILE_MATH_TRIG_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "backends/cpu/simd/math_exp-inl.h"
#include "backends/cpu/tile/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {

// Highway reduces by π in four parts, good to here; beyond, and for infinities and NaN, the standard library answers.
inline constexpr double kTrigLimit = 30000;

template <class T, class Op, auto f>
void unary_within_limit(const void* a, const void*, const void*, void* out, std::size_t n) {
  const Tag<T> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto x = load_some(d, static_cast<const T*>(a) + i, n - i);
    const auto within = hn::Le(hn::Abs(x), num(d, kTrigLimit));
    auto y = Op::run(d, hn::IfThenElseZero(within, x));
    if (HWY_UNLIKELY(!hn::AllTrue(d, within))) {
      HWY_ALIGN T xs[hn::MaxLanes(d)];
      HWY_ALIGN T ys[hn::MaxLanes(d)];
      hn::Store(x, d, xs);
      hn::Store(y, d, ys);
      for (std::size_t k = 0; k < hn::Lanes(d); ++k) {
        if (!(std::abs(xs[k]) <= static_cast<T>(kTrigLimit))) ys[k] = static_cast<T>(f(static_cast<double>(xs[k])));
      }
      y = hn::Load(d, ys);
    }
    store_some(d, y, static_cast<T*>(out) + i, n - i);
  }
}

template <class D, class V>
HWY_INLINE V sin(D d, V x) {
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::Sin(d, x));  // keeps -0
}
template <class D, class V>
HWY_INLINE V tan(D d, V x) {
  return hn::Div(sin(d, x), hn::Cos(d, x));
}

template <class D, class V>
HWY_INLINE V atan(D d, V x) {
  return hn::CopySign(hn::Atan(d, hn::Abs(x)), x);
}

// The angle of (x, y): the arctangent of the smaller over the larger, unfolded by octant.
template <class D, class V>
HWY_INLINE V atan2(D d, V y, V x) {
  const V ax = hn::Abs(x), ay = hn::Abs(y);
  const auto steep = hn::Gt(ay, ax);
  const V small = hn::IfThenElse(steep, ax, ay);
  const V large = hn::IfThenElse(steep, ay, ax);
  V ratio = hn::Div(small, large);
  ratio = hn::IfThenElse(hn::Eq(small, large), num(d, 1), ratio);    // also inf / inf
  ratio = hn::IfThenElse(hn::Eq(small, hn::Zero(d)), small, ratio);  // also 0 / 0
  V angle = hn::Atan(d, ratio);
  angle = hn::IfThenElse(steep, hn::Sub(num(d, 1.57079632679489661923), angle), angle);
  const auto left = hn::Lt(hn::CopySign(num(d, 1), x), hn::Zero(d));  // -0 too
  angle = hn::IfThenElse(left, hn::Sub(num(d, 3.14159265358979323846), angle), angle);
  angle = hn::CopySign(angle, y);
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::Add(x, y), angle);
}

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
