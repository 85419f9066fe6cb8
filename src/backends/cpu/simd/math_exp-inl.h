// exp, log and their kin in f32 and f64, for one instruction set. Polynomials of Highway's contrib/math; the reductions
// and the edges (infinities, NaN, denormals, signed zeros) are added here. NaN passes every clamp.
#if defined(VARVE_SIMD_MATH_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_SIMD_MATH_EXP_INL_H
#undef VARVE_SIMD_MATH_EXP_INL_H
#else
#define VARVE_SIMD_MATH_EXP_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A constant in the lane type of d. `single` where the best float is not the rounded double.
template <class D>
HWY_INLINE hn::Vec<D> num(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}
template <class D>
HWY_INLINE hn::Vec<D> num(D d, double value, float single) {
  return hn::Set(d, sizeof(hn::TFromD<D>) == 4 ? single : static_cast<hn::TFromD<D>>(value));
}

template <class D>
using Ints = hn::Vec<hn::RebindToSigned<D>>;

// 2^n, for n within the exponents of normal numbers (and 2^(max+1) = infinity).
template <class D>
HWY_INLINE hn::Vec<D> pow2(D d, Ints<D> n) {
  const hn::RebindToSigned<D> di;
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
  else
    return hn::BitCast(d, hn::ShiftLeft<52>(hn::Add(n, hn::Set(di, 1023))));
}

// x = n·ln 2 + r, |r| <= ln 2 / 2; returns e^r - 1. Adding 1.5·2^23 (2^52) leaves the integer in the low bits.
template <class D, class V>
HWY_INLINE V reduced_expm1(D d, V x, Ints<D>& n) {
  const hn::RebindToSigned<D> di;
  const V magic = num(d, 6755399441055744.0, 12582912.0f);
  const V shifted = hn::MulAdd(x, num(d, 1.44269504088896340736), magic);
  const V whole = hn::Sub(shifted, magic);
  n = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic));
  V r = hn::NegMulAdd(whole, num(d, 0.6931471805596629565116018, 0.693145751953125f), x);
  r = hn::NegMulAdd(whole, num(d, 0.28235290563031577122588448175e-12, 1.428606765330187045e-6f), r);
  return hn::impl::ExpImpl<hn::TFromD<D>>().ExpPoly(d, r);
}

// With x last: where either is NaN, x86 gives the second operand.
template <class V>
HWY_INLINE V clamp(V x, V low, V high) {
  return hn::Min(high, hn::Max(low, x));
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  x = clamp(x, num(d, -750, -104), num(d, 750, 104));
  Ints<D> n;
  const V p = hn::Add(reduced_expm1(d, x, n), num(d, 1));
  // In two steps: 2^n alone would leave the exponents of normal numbers where the result is denormal or infinite.
  const auto half = hn::ShiftRight<1>(n);
  return hn::Mul(hn::Mul(p, pow2(d, half)), pow2(d, hn::Sub(n, half)));
}

// (e^x - 1) / 4: the quarter does not overflow before sinh and cosh do.
template <class D, class V>
HWY_INLINE V quarter_expm1(D d, V x) {
  const hn::RebindToSigned<D> di;
  x = clamp(x, num(d, -40, -20), num(d, 710.6, 89.5));
  Ints<D> n;
  const V p = reduced_expm1(d, x, n);
  const V scale = pow2(d, hn::Sub(n, hn::Set(di, 2)));
  return hn::MulAdd(scale, p, hn::Sub(scale, num(d, 0.25)));
}

template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  const V y = hn::Mul(quarter_expm1(d, x), num(d, 4));
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);  // keeps -0
}

template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  // t = e^2|x| - 1: tanh |x| = t / (t + 2)
  const V a = hn::Abs(x);
  const V q = quarter_expm1(d, hn::Add(a, a));
  return hn::CopySign(hn::Div(q, hn::Add(q, num(d, 0.5))), x);
}

template <class D, class V>
HWY_INLINE V sinh(D d, V x) {
  // (t + t / (t + 1)) / 2 with t = e^|x| - 1 = 4q; once t is large the second term, then inf / inf, is not needed.
  const V q = quarter_expm1(d, hn::Abs(x));
  const V tail = hn::Div(q, hn::MulAdd(q, num(d, 4), num(d, 1)));
  const V sum = hn::Add(q, hn::IfThenZeroElse(hn::Gt(q, num(d, 1e17)), tail));
  return hn::CopySign(hn::Add(sum, sum), x);
}

template <class D, class V>
HWY_INLINE V cosh(D d, V x) {
  const V e = hn::Add(quarter_expm1(d, hn::Abs(x)), num(d, 0.25));  // e^|x| / 4
  return hn::Add(hn::Add(e, e), hn::Div(num(d, 0.125), e));
}

template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {  // the same steps as the formula 1 / (1 + exp(-x))
  const V one = num(d, 1);
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

// log 0 = -inf, of infinity itself, of anything else that is not positive NaN.
template <class D, class V>
HWY_INLINE V log_edges(D d, V x, V y) {
  using T = hn::TFromD<D>;
  const V infinity = hn::Inf(d);
  const V bad = hn::Set(d, std::numeric_limits<T>::quiet_NaN());
  const V low = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), bad);
  const V edge = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, low);
  return hn::IfThenElse(hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, infinity)), y, edge);
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  return log_edges(d, x, hn::Log(d, x));
}

template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  // What 1 + x lost to rounding comes back to first order.
  const V one = num(d, 1);
  const V u = hn::Add(x, one);
  const V lost = hn::Div(hn::Sub(x, hn::Sub(u, one)), u);
  const V y = log_edges(d, u, hn::Add(hn::Log(d, u), lost));
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);
}

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
