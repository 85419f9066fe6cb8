// The loops that apply one operator to a tile. Included once per target: see Highway's foreach_target.
#if defined(VARVE_TILE_LOOPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_TILE_LOOPS_INL_H
#undef VARVE_TILE_LOOPS_INL_H
#else
#define VARVE_TILE_LOOPS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "backends/cpu/simd/load_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One body for whole vectors and the tail alike: the operators here are long, and compiled for several targets.
template <class T, class Op>
void unary(const void* a, const void*, const void*, void* out, std::size_t n) {
  const Tag<T> d;
  const T* pa = static_cast<const T*>(a);
  T* po = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    store_some(d, Op::run(d, load_some(d, pa + i, n - i)), po + i, n - i);
  }
}

template <class T, class Op>
void binary(const void* a, const void* b, const void*, void* out, std::size_t n) {
  const Tag<T> d;
  const T* pa = static_cast<const T*>(a);
  const T* pb = static_cast<const T*>(b);
  T* po = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    store_some(d, Op::run(d, load_some(d, pa + i, n - i), load_some(d, pb + i, n - i)), po + i, n - i);
  }
}

template <class T>
void select(const void* condition, const void* b, const void* c, void* out, std::size_t n) {
  const Tag<T> d;
  const T* pa = static_cast<const T*>(condition);
  const T* pb = static_cast<const T*>(b);
  const T* pc = static_cast<const T*>(c);
  T* po = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto on = differ(load_some(d, pa + i, n - i), hn::Zero(d));
    store_some(d, hn::IfThenElse(on, load_some(d, pb + i, n - i), load_some(d, pc + i, n - i)), po + i, n - i);
  }
}

// Where the standard library's function is the best we have: one element at a time.
template <class T, auto f>
void scalar_unary(const void* a, const void*, const void*, void* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = f(static_cast<const T*>(a)[i]);
}
template <class T, auto f>
void scalar_binary(const void* a, const void* b, const void*, void* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    static_cast<T*>(out)[i] = f(static_cast<const T*>(a)[i], static_cast<const T*>(b)[i]);
  }
}

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
