// The activations of an LSTM cell in f32, for one instruction set: shorter than the general ones, which reach every
// number of the type. A sigmoid below 1e-19 stays there.
#if defined(VARVE_RECURRENT_LSTM_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_RECURRENT_LSTM_MATH_INL_H
#undef VARVE_RECURRENT_LSTM_MATH_INL_H
#else
#define VARVE_RECURRENT_LSTM_MATH_INL_H
#endif

#include "backends/cpu/simd/math_exp-inl.h"
#include "backends/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {

// e^(k·x) as 2^n·(1 + rest), for k·x well within the exponents; `factor` is k / ln 2. The polynomial is (2^f - 1) / f
// between -1/2 and 1/2, 2e-8 off at most.
struct Power {
  Vf scale, rest;
};
HWY_INLINE Power power(Vf x, double factor) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const Vf magic = num(d, 12582912);  // leaves the integer in the low bits
  const Vf shifted = hn::MulAdd(x, num(d, factor), magic);
  const Vf f = hn::MulSub(x, num(d, factor), hn::Sub(shifted, magic));
  Vf p = hn::MulAdd(num(d, 0.00015453163), f, num(d, 0.0013390863));
  p = hn::MulAdd(p, f, num(d, 0.009618083));
  p = hn::MulAdd(p, f, num(d, 0.05550357));
  p = hn::MulAdd(p, f, num(d, 0.24022651));
  p = hn::MulAdd(p, f, num(d, 0.69314718));
  const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(di, shifted)), hn::Set(di, 127 << 23));
  return {hn::BitCast(d, exponent), hn::Mul(f, p)};
}

constexpr double kLog2E = 1.44269504088896340736;

// 1 / x for an x from 1 to 1e30, to a unit in the last place or so. A division takes longer than all the rest of a
// sigmoid where an approximation to 14 bits needs only one step of Newton's.
HWY_INLINE Vf inverse(Vf x) {
  const Vf one = num(Floats(), 1);
  if constexpr (HWY_TARGET <= HWY_AVX3) {
    const Vf near = hn::ApproximateReciprocal(x);
    return hn::MulAdd(near, hn::NegMulAdd(x, near, one), near);
  }
  return hn::Div(one, x);
}

// 1 + e^-x, the inverse of sigmoid. Within these bounds its product with that of tanh is far from the exponents' end.
HWY_INLINE Vf sigmoid_divisor(Vf x) {
  const Floats d;
  const Power e = power(clamp(x, num(d, -43), num(d, 43)), -kLog2E);
  return hn::MulAdd(e.scale, e.rest, hn::Add(e.scale, num(d, 1)));
}

// tanh |x| = t / (t + 2) with t = e^2|x| - 1; from |x| = 10 on it is 1.
HWY_INLINE Vf tanh_dividend(Vf x) {
  const Floats d;
  const Power e = power(hn::Min(num(d, 10), hn::Abs(x)), 2 * kLog2E);
  return hn::MulAdd(e.scale, e.rest, hn::Sub(e.scale, num(d, 1)));
}
HWY_INLINE Vf cell_tanh(Vf x) {
  const Vf t = tanh_dividend(x);
  return hn::CopySign(hn::Mul(t, inverse(hn::Add(t, num(Floats(), 2)))), x);
}

struct Gates {
  Vf i, f, g, o;
};

// i and g, which only meet in i·g, share a division; f and o have their own, for a NaN in one not to reach the other.
HWY_INLINE Gates activated(const Gates& pre) {
  const Floats d;
  const Vf i = sigmoid_divisor(pre.i), t = tanh_dividend(pre.g), g = hn::Add(t, num(d, 2));
  const Vf both = inverse(hn::Mul(i, g));
  return {hn::Mul(g, both), inverse(sigmoid_divisor(pre.f)), hn::CopySign(hn::Mul(hn::Mul(t, i), both), pre.g),
          inverse(sigmoid_divisor(pre.o))};
}

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
