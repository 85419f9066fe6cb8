// Loads and stores of whole and partial vectors. Included once per target: see Highway's foreach_target.
#if defined(VARVE_SIMD_LOAD_STORE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_SIMD_LOAD_STORE_INL_H
#undef VARVE_SIMD_LOAD_STORE_INL_H
#else
#define VARVE_SIMD_LOAD_STORE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;

// The last n < Lanes(d) elements, zeros above; touches no memory past them. Elements of one or two bytes go through a
// copy: AVX2 has no masks for those, and Highway would read and write the whole vector.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_tail(D d, const T* from, std::size_t n) {
  if constexpr (sizeof(T) < 4) {
    HWY_ALIGN T some[hn::MaxLanes(D())] = {};
    std::memcpy(some, from, n * sizeof(T));
    return hn::Load(d, some);
  } else {
    return hn::MaskedLoad(hn::FirstN(d, n), d, from);
  }
}
template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE void store_tail(D d, V v, T* to, std::size_t n) {
  if constexpr (sizeof(T) < 4) {
    HWY_ALIGN T some[hn::MaxLanes(D())];
    hn::Store(v, d, some);
    std::memcpy(to, some, n * sizeof(T));
  } else {
    hn::BlendedStore(v, hn::FirstN(d, n), d, to);
  }
}

// True for NaN, unlike Highway's Ne, whose comparison is ordered on AVX-512.
template <class V>
HWY_INLINE auto differ(V a, V b) {
  return hn::Not(hn::Eq(a, b));
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_some(D d, const T* from, std::size_t n) {
  return HWY_LIKELY(n >= hn::Lanes(d)) ? hn::LoadU(d, from) : load_tail(d, from, n);
}
template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE void store_some(D d, V v, T* to, std::size_t n) {
  if (HWY_LIKELY(n >= hn::Lanes(d)))
    hn::StoreU(v, d, to);
  else
    store_tail(d, v, to, n);
}

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
