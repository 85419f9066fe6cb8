#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/matmul/update_kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "backends/cpu/matmul/update_kernels.h"
#include "backends/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

// Multiplications and additions apart, in the order of the operator's formula.
void adam(const AdamRun& run, const AdamStep& s, std::size_t count) {
  const Floats d;
  const Vf step = hn::Set(d, s.step), root = hn::Set(d, s.root), blend1 = hn::Set(d, s.blend1);
  const Vf blend2 = hn::Set(d, s.blend2), epsilon = hn::Set(d, s.epsilon), decay = hn::Set(d, s.decay);
  const Vf keep_w = hn::Set(d, s.keep);
  const bool decays = s.decay != 0;
  for_row(count, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf w = load_some(d, run.w + i, left), m = load_some(d, run.m + i, left), v = load_some(d, run.v + i, left);
    Vf g = load_some(d, run.g + i, left);
    if (decays) g = hn::Add(g, hn::Mul(decay, w));
    const Vf next_m = hn::Add(m, hn::Mul(blend1, hn::Sub(g, m)));
    const Vf next_v = hn::Add(v, hn::Mul(blend2, hn::Sub(hn::Mul(g, g), v)));
    const Vf scale = hn::Add(hn::Mul(hn::Sqrt(next_v), root), epsilon);
    store_some(d, hn::Sub(hn::Mul(w, keep_w), hn::Div(hn::Mul(step, next_m), scale)), run.next_w + i, left);
    store_some(d, next_m, run.next_m + i, left);
    store_some(d, next_v, run.next_v + i, left);
  });
}

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
namespace {
HWY_EXPORT(adam);
}  // namespace

void adam_run(const AdamRun& run, const AdamStep& step, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(adam)(run, step, count);
}

}  // namespace varve::cpu
#endif
