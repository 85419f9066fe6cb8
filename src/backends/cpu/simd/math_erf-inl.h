// erf, erfc and pow in f32, for one instruction set.
#if defined(VARVE_SIMD_MATH_ERF_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_SIMD_MATH_ERF_INL_H
#undef VARVE_SIMD_MATH_ERF_INL_H
#else
#define VARVE_SIMD_MATH_ERF_INL_H
#endif

#include <hwy/highway.h>

#include "backends/cpu/simd/math_exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {

// Coefficients from the highest power down.
template <class D, class V, class... Rest>
HWY_INLINE V horner(D d, V x, float first, Rest... rest) {
  V sum = hn::Set(d, first);
  ((sum = hn::MulAdd(sum, x, hn::Set(d, rest))), ...);
  return sum;
}

template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V s = hn::Mul(x, x);
  V a = hn::Abs(x);
  // Near 0: x + x·p(x²).
  const V p =
      horner(d, s, -5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f, -3.76125336e-1f, 1.28379166e-1f);
  const V near = hn::MulAdd(p, x, x);
  // Further out: 1 - exp(q(|x|)); from 4 on that is 1.
  const V four = hn::Set(d, 4.0f);
  a = hn::IfThenElse(hn::Gt(a, four), four, a);
  const V q = horner(d, a, -1.72853470e-5f, 3.83197126e-4f, -3.88396438e-3f, 2.42546219e-2f, -1.06777877e-1f,
                     -6.34846687e-1f, -1.28717512e-1f);
  const V far = hn::Sub(hn::Set(d, 1.0f), exp(d, hn::MulAdd(q, a, hn::Neg(a))));
  return hn::IfThenElse(hn::Gt(a, hn::Set(d, 0.927734375f)), hn::CopySign(far, x), near);
}

// erfc a = e^(-a²)·t·p(q) for a >= 0, t = 1 / (a + 2), q = (a - 2)·t; p fitted to 5e-9 on [0, 10.3], where erfc
// underflows. Gives e^(-a²) as well.
template <class D, class V>
HWY_INLINE V erfc_of_positive(D d, V a, V& gauss) {
  const V most = hn::Set(d, 10.3f);
  a = hn::IfThenElse(hn::Gt(a, most), most, a);
  const V two = hn::Set(d, 2.0f);
  const V t = hn::Div(hn::Set(d, 1.0f), hn::Add(a, two));
  const V q = hn::Mul(hn::Sub(a, two), t);
  const V p =
      horner(d, q, 6.45794362489e-5f, 4.028038387e-5f, -0.000587842726137f, -0.000824137369364f, 0.00306113601877f,
             0.00647266738021f, -0.0215055349756f, -0.036441292477f, 0.279471757877f, -0.687160717521f, 1.02158270897f);
  // In the tail the rounding of x² would be amplified by x²: what it lost goes into the factor, e^-lost = 1 - lost.
  const V square = hn::Mul(a, a);
  const V lost = hn::MulSub(a, a, square);
  gauss = exp(d, hn::Neg(square));
  gauss = hn::NegMulAdd(gauss, lost, gauss);
  return hn::Mul(gauss, hn::Mul(t, p));
}

template <class D, class V>
HWY_INLINE V erfc(D d, V x) {
  V gauss;
  const V tail = erfc_of_positive(d, hn::Abs(x), gauss);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0f), tail), tail);
}

// In double lanes: log and exp then have bits to spare. The edges are those of std::pow.
template <class D, class V>
HWY_INLINE V pow_in_double(D d, V x, V y) {
  const V one = num(d, 1);
  const V a = hn::Abs(x);
  V r = exp(d, hn::Mul(y, log(d, a)));
  const auto whole = hn::Eq(hn::Round(y), y);  // infinite y counts as whole and even
  const V halved = hn::Mul(y, num(d, 0.5));
  const auto odd = hn::And(whole, hn::Ne(hn::Round(halved), halved));
  r = hn::IfThenElse(odd, hn::CopySign(r, x), r);
  const auto root_of_negative = hn::And(hn::And(hn::Lt(x, hn::Zero(d)), hn::Lt(a, hn::Inf(d))), hn::Not(whole));
  r = hn::IfThenElse(root_of_negative, hn::NaN(d), r);
  const auto ones = hn::Or(hn::Eq(x, one), hn::And(hn::Eq(a, one), hn::Eq(hn::Abs(y), hn::Inf(d))));
  return hn::IfThenElse(hn::Or(ones, hn::Eq(y, hn::Zero(d))), one, r);
}

template <class D, class V>
HWY_INLINE V pow(D d, V x, V y) {
  const hn::Half<D> dh;
  const hn::RepartitionToWide<D> dd;
  const auto low = pow_in_double(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, x)), hn::PromoteTo(dd, hn::LowerHalf(dh, y)));
  const auto high = pow_in_double(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, x)), hn::PromoteTo(dd, hn::UpperHalf(dh, y)));
  return hn::Combine(d, hn::DemoteTo(dh, high), hn::DemoteTo(dh, low));
}

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
