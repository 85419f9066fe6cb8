// Loops over one row of f32 for one instruction set: sums whose bits do not depend on the width of a vector.
#if defined(VARVE_SIMD_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_SIMD_ROWS_INL_H
#undef VARVE_SIMD_ROWS_INL_H
#else
#define VARVE_SIMD_ROWS_INL_H
#endif

#include <hwy/highway.h>

#include <limits>

#include "backends/cpu/simd/load_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {

using Floats = Tag<float>;
using Vf = hn::Vec<Floats>;

// The first n lanes; zero above.
HWY_INLINE Vf keep(Vf v, std::size_t n) {
  const Floats d;
  return HWY_LIKELY(n >= hn::Lanes(d)) ? v : hn::IfThenElseZero(hn::FirstN(d, n), v);
}

// Σ body(i) over the row, where body(i, left) gives the vector of terms from i on, zero past `left`. Term i goes to
// partial sum i mod 16; the 16 are added in double, as a tree.
template <class Body>
HWY_INLINE double sum_row(std::size_t n, const Body& body) {
  const Floats d;
  constexpr std::size_t kLanes = hn::MaxLanes(d), kSums = 16 / kLanes;
  static_assert(kSums >= 1);
  Vf sums[kSums];
  for (Vf& sum : sums) sum = hn::Zero(d);
  for (std::size_t i = 0; i < n; i += 16) {
    for (std::size_t k = 0; k < kSums && i + k * kLanes < n; ++k) {
      sums[k] = hn::Add(sums[k], body(i + k * kLanes, n - i - k * kLanes));
    }
  }
  HWY_ALIGN float lanes[16];
  for (std::size_t k = 0; k < kSums; ++k) hn::Store(sums[k], d, lanes + k * kLanes);
  double wide[16];
  for (std::size_t k = 0; k < 16; ++k) wide[k] = lanes[k];
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) wide[k] += wide[k + half];
  }
  return wide[0];
}

// NaN wins.
HWY_INLINE float max_row(const float* x, std::size_t n) {
  const Floats d;
  const Vf low = hn::Set(d, -std::numeric_limits<float>::infinity());
  Vf most = low;
  auto nan = hn::IsNaN(most);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    Vf v = load_some(d, x + i, n - i);
    nan = hn::Or(nan, hn::IsNaN(v));
    if (HWY_UNLIKELY(n - i < hn::Lanes(d))) v = hn::IfThenElse(hn::FirstN(d, n - i), v, low);
    most = hn::Max(v, most);
  }
  if (HWY_UNLIKELY(!hn::AllFalse(d, nan))) return std::numeric_limits<float>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

// out(i, left) for every vector of the row.
template <class Body>
HWY_INLINE void for_row(std::size_t n, const Body& body) {
  for (std::size_t i = 0; i < n; i += hn::Lanes(Floats())) body(i, n - i);
}

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
