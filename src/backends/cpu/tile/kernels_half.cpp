// f16 and bf16 to and from f32, straight runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile/kernels_half.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "backends/cpu/simd/bf16-inl.h"
#include "backends/cpu/tile/kernels_simd.h"
#include "backends/cpu/tile/loops-inl.h"
#include "base/half.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

using F32 = Tag<float>;
using U16 = hn::Rebind<std::uint16_t, F32>;
using F16 = hn::Rebind<hwy::float16_t, F32>;

struct Half {
  using Storage = half;
  static HWY_INLINE hn::Vec<F32> widen(hn::Vec<U16> bits) { return hn::PromoteTo(F32(), hn::BitCast(F16(), bits)); }
  static HWY_INLINE hn::Vec<U16> narrow(hn::Vec<F32> x) { return hn::BitCast(U16(), hn::DemoteTo(F16(), x)); }
};

struct Bf16 {
  using Storage = bfloat16;
  static HWY_INLINE hn::Vec<F32> widen(hn::Vec<U16> bits) { return bf16_widen(F32(), bits); }
  static HWY_INLINE hn::Vec<U16> narrow(hn::Vec<F32> x) { return bf16_round(F32(), x); }
};

template <class Format>
void load(const void* a, const void*, const void*, void* out, std::size_t n) {
  const F32 d;
  const auto* from = static_cast<const std::uint16_t*>(a);
  float* to = static_cast<float*>(out);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) hn::StoreU(Format::widen(hn::LoadU(U16(), from + i)), d, to + i);
  for (; i < n; ++i) to[i] = varve::widen(static_cast<const typename Format::Storage*>(a)[i]);
}

template <class Format>
void store(const void* a, const void*, const void*, void* out, std::size_t n) {
  const F32 d;
  const float* from = static_cast<const float*>(a);
  auto* to = static_cast<std::uint16_t*>(out);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) hn::StoreU(Format::narrow(hn::LoadU(d, from + i)), U16(), to + i);
  for (; i < n; ++i) to[i] = varve::narrow<typename Format::Storage>(from[i]).bits;
}

KernelFn half_load(DType from) { return from == DType::f16 ? &load<Half> : &load<Bf16>; }
KernelFn half_store(DType to) { return to == DType::f16 ? &store<Half> : &store<Bf16>; }

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(half_load);
HWY_EXPORT(half_store);

KernelFn half_load_kernel(DType from) { return HWY_DYNAMIC_DISPATCH(half_load)(from); }
KernelFn half_store_kernel(DType to) { return HWY_DYNAMIC_DISPATCH(half_store)(to); }
}  // namespace varve::cpu
#endif
