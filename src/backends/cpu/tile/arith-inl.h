// The cheap primitives on vectors, for one instruction set.
#if defined(VARVE_TILE_ARITH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_TILE_ARITH_INL_H
#undef VARVE_TILE_ARITH_INL_H
#else
#define VARVE_TILE_ARITH_INL_H
#endif

#include <hwy/highway.h>

#include "backends/cpu/tile/loops-inl.h"
#include "varve/expr.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
using expr::Prim;

template <class D, class M>
HWY_INLINE hn::Vec<D> truth(D d, M mask) {
  return hn::IfThenElseZero(mask, hn::Set(d, hn::TFromD<D>{1}));
}

template <Prim prim>
struct Binary {
  template <class D, class V>
  static HWY_INLINE V run(D d, V a, V b) {
    if constexpr (prim == Prim::add) return hn::Add(a, b);
    if constexpr (prim == Prim::sub) return hn::Sub(a, b);
    if constexpr (prim == Prim::mul) return hn::Mul(a, b);
    if constexpr (prim == Prim::div) return hn::Div(a, b);
    // A comparison with NaN is false and gives b, so only a NaN in a is left to pass on.
    if constexpr (prim == Prim::max) return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Gt(a, b), a, b));
    if constexpr (prim == Prim::min) return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Lt(a, b), a, b));
    if constexpr (prim == Prim::lt) return truth(d, hn::Lt(a, b));
    if constexpr (prim == Prim::le) return truth(d, hn::Le(a, b));
    if constexpr (prim == Prim::eq) return truth(d, hn::Eq(a, b));
    if constexpr (prim == Prim::ne) return truth(d, differ(a, b));
    const auto zero = hn::Zero(d);
    if constexpr (prim == Prim::logical_and) return truth(d, hn::And(differ(a, zero), differ(b, zero)));
    if constexpr (prim == Prim::logical_or) return truth(d, hn::Or(differ(a, zero), differ(b, zero)));
  }
};

template <Prim prim>
struct Unary {
  template <class D, class V>
  static HWY_INLINE V run(D d, V x) {
    using T = hn::TFromD<D>;
    if constexpr (prim == Prim::neg) return hn::Neg(x);
    if constexpr (prim == Prim::abs) return hn::Abs(x);
    if constexpr (prim == Prim::floor) return hn::Floor(x);
    if constexpr (prim == Prim::ceil) return hn::Ceil(x);
    if constexpr (prim == Prim::round) return hn::Round(x);
    if constexpr (prim == Prim::trunc) return hn::Trunc(x);
    if constexpr (prim == Prim::sqrt) return hn::Sqrt(x);
    if constexpr (prim == Prim::rsqrt) return hn::Div(hn::Set(d, T{1}), hn::Sqrt(x));
    if constexpr (prim == Prim::logical_not) return truth(d, hn::Eq(x, hn::Zero(d)));
    if constexpr (prim == Prim::is_nan) return truth(d, hn::IsNaN(x));
    if constexpr (prim == Prim::sign) {  // zeros and NaN are their own sign
      const auto one = hn::CopySign(hn::Set(d, T{1}), x);
      return hn::IfThenElse(hn::Gt(hn::Abs(x), hn::Zero(d)), one, x);
    }
  }
};

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
