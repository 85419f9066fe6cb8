// Vectors of f32 from memory that holds f32 or bf16, and back. Included once per target: see Highway's foreach_target.
#if defined(VARVE_SIMD_BF16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_SIMD_BF16_INL_H
#undef VARVE_SIMD_BF16_INL_H
#else
#define VARVE_SIMD_BF16_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "base/half.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kMostFloats = 16;  // in a vector
using Floats16 = hn::CappedTag<float, kMostFloats>;
using FloatVector = hn::Vec<Floats16>;

inline std::int64_t float_lanes() { return static_cast<std::int64_t>(hn::Lanes(Floats16())); }

template <class D>
HWY_INLINE hn::Vec<D> bf16_widen(D d, hn::Vec<hn::Rebind<std::uint16_t, D>> bits) {
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::Rebind<std::uint32_t, D>(), bits)));
}

// To nearest even; a NaN stays one, made quiet.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> bf16_round(D, hn::Vec<D> x) {
  const hn::Rebind<std::uint32_t, D> d;
  const auto bits = hn::BitCast(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF)));
  const auto nan = hn::Or(bits, hn::Set(d, 0x400000));
  const auto top = hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), nan, rounded));
  return hn::TruncateTo(hn::Rebind<std::uint16_t, D>(), top);
}

// The first `count` elements, zeros after them; nothing beyond them is touched.
HWY_INLINE FloatVector load_floats(const float* from, std::int64_t count) {
  const Floats16 d;
  if (HWY_LIKELY(count >= float_lanes())) return hn::LoadU(d, from);
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
}
HWY_INLINE FloatVector load_floats(const bfloat16* from, std::int64_t count) {
  const Floats16 d;
  const hn::Rebind<std::uint16_t, Floats16> d16;
  if (HWY_LIKELY(count >= float_lanes()))
    return bf16_widen(d, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from)));
  HWY_ALIGN std::uint16_t some[kMostFloats] = {};
  for (std::int64_t i = 0; i < count; ++i) some[i] = from[i].bits;
  return bf16_widen(d, hn::Load(d16, some));
}

HWY_INLINE void store_floats(FloatVector x, float* to, std::int64_t count) {
  const Floats16 d;
  if (HWY_LIKELY(count >= float_lanes()))
    hn::StoreU(x, d, to);
  else
    hn::BlendedStore(x, hn::FirstN(d, static_cast<std::size_t>(count)), d, to);
}
HWY_INLINE void store_floats(FloatVector x, bfloat16* to, std::int64_t count) {
  const hn::Rebind<std::uint16_t, Floats16> d16;
  const auto bits = bf16_round(Floats16(), x);
  if (HWY_LIKELY(count >= float_lanes())) return hn::StoreU(bits, d16, reinterpret_cast<std::uint16_t*>(to));
  HWY_ALIGN std::uint16_t some[kMostFloats];
  hn::Store(bits, d16, some);
  for (std::int64_t i = 0; i < count; ++i) to[i].bits = some[i];
}

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
