// The cheap primitives (arithmetic, comparisons, logic, rounding) in f32 and f64, and the tile-wide moves.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile/kernels_arith.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/tile/arith-inl.h"
#include "backends/cpu/tile/kernels_simd.h"
#include "backends/cpu/tile/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {
using expr::Prim;

template <class T>
KernelFn unary_prim(Prim prim) {
  switch (prim) {
    case Prim::neg:
      return &unary<T, Unary<Prim::neg>>;
    case Prim::abs:
      return &unary<T, Unary<Prim::abs>>;
    case Prim::sign:
      return &unary<T, Unary<Prim::sign>>;
    case Prim::floor:
      return &unary<T, Unary<Prim::floor>>;
    case Prim::ceil:
      return &unary<T, Unary<Prim::ceil>>;
    case Prim::round:
      return &unary<T, Unary<Prim::round>>;
    case Prim::trunc:
      return &unary<T, Unary<Prim::trunc>>;
    case Prim::sqrt:
      return &unary<T, Unary<Prim::sqrt>>;
    case Prim::rsqrt:
      return &unary<T, Unary<Prim::rsqrt>>;
    case Prim::logical_not:
      return &unary<T, Unary<Prim::logical_not>>;
    case Prim::is_nan:
      return &unary<T, Unary<Prim::is_nan>>;
    default:
      return nullptr;
  }
}

template <class T>
KernelFn any_prim(Prim prim) {
  switch (prim) {
    case Prim::add:
      return &binary<T, Binary<Prim::add>>;
    case Prim::sub:
      return &binary<T, Binary<Prim::sub>>;
    case Prim::mul:
      return &binary<T, Binary<Prim::mul>>;
    case Prim::div:
      return &binary<T, Binary<Prim::div>>;
    case Prim::min:
      return &binary<T, Binary<Prim::min>>;
    case Prim::max:
      return &binary<T, Binary<Prim::max>>;
    case Prim::lt:
      return &binary<T, Binary<Prim::lt>>;
    case Prim::le:
      return &binary<T, Binary<Prim::le>>;
    case Prim::eq:
      return &binary<T, Binary<Prim::eq>>;
    case Prim::ne:
      return &binary<T, Binary<Prim::ne>>;
    case Prim::logical_and:
      return &binary<T, Binary<Prim::logical_and>>;
    case Prim::logical_or:
      return &binary<T, Binary<Prim::logical_or>>;
    case Prim::select:
      return &select<T>;
    default:
      return unary_prim<T>(prim);
  }
}

template <class T>
void splat(const void* a, const void*, const void*, void* out, std::size_t n) {
  const Tag<T> d;
  const auto value = hn::Set(d, *static_cast<const T*>(a));
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) store_some(d, value, static_cast<T*>(out) + i, n - i);
}

template <class T>
void nontemporal(const void* a, const void*, const void*, void* out, std::size_t n) {
  const Tag<T> d;
  const T* from = static_cast<const T*>(a);
  T* to = static_cast<T*>(out);
  constexpr std::size_t kLine = 64 / sizeof(T);
  // Streaming stores must be aligned: up to the first cache line, and after the last, elements go one by one.
  std::size_t i = 0;
  for (; i < n && reinterpret_cast<std::uintptr_t>(to + i) % 64 != 0; ++i) to[i] = from[i];
  for (; i + kLine <= n; i += kLine) {
    for (std::size_t k = 0; k < kLine; k += hn::Lanes(d)) hn::Stream(hn::LoadU(d, from + i + k), d, to + i + k);
  }
  for (; i < n; ++i) to[i] = from[i];
}

KernelFn arith_f32(Prim prim) { return any_prim<float>(prim); }
KernelFn arith_f64(Prim prim) { return any_prim<double>(prim); }
KernelFn move_f32(Move move) { return move == Move::splat ? &splat<float> : &nontemporal<float>; }
KernelFn move_f64(Move move) { return move == Move::splat ? &splat<double> : &nontemporal<double>; }

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(arith_f32);
HWY_EXPORT(arith_f64);
HWY_EXPORT(move_f32);
HWY_EXPORT(move_f64);

KernelFn arith_kernel_f32(expr::Prim prim) { return HWY_DYNAMIC_DISPATCH(arith_f32)(prim); }
KernelFn arith_kernel_f64(expr::Prim prim) { return HWY_DYNAMIC_DISPATCH(arith_f64)(prim); }
KernelFn move_kernel_f32(Move move) { return HWY_DYNAMIC_DISPATCH(move_f32)(move); }
KernelFn move_kernel_f64(Move move) { return HWY_DYNAMIC_DISPATCH(move_f64)(move); }
}  // namespace varve::cpu
#endif
