#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/groups/gelu_kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "backends/cpu/groups/gelu_kernels.h"
#include "backends/cpu/simd/math_erf-inl.h"
#include "backends/cpu/simd/rows-inl.h"
#include "base/threads.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

void gelu_run(const float* x, float* y, float* slope, std::size_t n) {
  constexpr float kInvSqrt2 = 0.707106781186547524f, kInvSqrt2Pi = 0.398942280401432678f;
  const Floats d;
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf v = load_some(d, x + i, left);
    Vf gauss;  // e^(-x²/2)
    const Vf tail = erfc_of_positive(d, hn::Abs(hn::Mul(v, hn::Set(d, kInvSqrt2))), gauss);
    const Vf below = hn::Mul(tail, hn::Set(d, 0.5f));  // Φ(-|x|)
    const Vf share = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), below, hn::Sub(hn::Set(d, 1.0f), below));
    store_some(d, hn::Mul(v, share), y + i, left);
    store_some(d, hn::MulAdd(hn::Mul(v, gauss), hn::Set(d, kInvSqrt2Pi), share), slope + i, left);
  });
}

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(gelu_run);

void gelu_with_slope(const float* x, float* y, float* slope, std::int64_t count) {
  constexpr std::int64_t kBlock = 8192;
  parallel_for(count, kBlock, [=](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(gelu_run)(x + begin, y + begin, slope + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace varve::cpu
#endif
