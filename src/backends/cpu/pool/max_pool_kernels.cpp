#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pool/max_pool_kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "backends/cpu/pool/max_pool_kernels.h"
#include "backends/cpu/simd/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

using Mask = hn::Mask<Floats16>;

// Whether `value` goes before `best`: NaN beats every number, equals do not.
HWY_INLINE Mask beats(FloatVector value, FloatVector best) {
  return hn::Or(hn::Gt(value, best), hn::And(hn::IsNaN(value), hn::Not(hn::IsNaN(best))));
}

// A window's cells, in pixels from the first covered row's start.
struct Columns {
  std::int64_t begin, end;

  Columns(const PoolRow& r, std::int64_t i)
      : begin(std::max<std::int64_t>(i * r.stride - r.before, 0)),
        end(std::min(i * r.stride - r.before + r.window, r.width)) {}
};

// visit(place of the cell in pixels) for all cells but the first.
template <class F>
HWY_INLINE void each_other_cell(const PoolRow& r, const Columns& columns, const F& visit) {
  for (std::int64_t column = columns.begin + 1; column < columns.end; ++column) visit(column);
  for (std::int64_t row = 1; row < r.rows; ++row)
    for (std::int64_t column = columns.begin; column < columns.end; ++column) visit(row * r.width + column);
}

template <class T>
void largest(const PoolRow& r, void* y) {
  T* out = static_cast<T*>(y);
  for (std::int64_t i = 0; i < r.out_width; ++i, out += r.channels) {
    const Columns columns(r, i);
    for (std::int64_t c = 0; c < r.channels; c += float_lanes()) {
      const T* x = static_cast<const T*>(r.x) + c;
      const std::int64_t count = r.channels - c;
      FloatVector best = load_floats(x + columns.begin * r.channels, count);
      each_other_cell(r, columns, [&](std::int64_t pixel) HWY_ATTR {
        const FloatVector value = load_floats(x + pixel * r.channels, count);
        best = hn::IfThenElse(beats(value, best), value, best);
      });
      store_floats(best, out + c, count);
    }
  }
}

template <class T>
void spread(const PoolRow& r, const float* dy, bool positive, void* dx, float* sums) {
  const Floats16 d;
  const hn::RebindToSigned<Floats16> di;
  for (std::int64_t i = 0; i < r.out_width; ++i, dy += r.channels) {
    const Columns columns(r, i);
    for (std::int64_t c = 0; c < r.channels; c += float_lanes()) {
      const T* x = static_cast<const T*>(r.x) + c;
      T* out = static_cast<T*>(dx) + c;
      const std::int64_t count = r.channels - c;
      FloatVector best = load_floats(x + columns.begin * r.channels, count);
      auto which = hn::Set(di, static_cast<std::int32_t>(columns.begin));
      each_other_cell(r, columns, [&](std::int64_t pixel) HWY_ATTR {
        const FloatVector value = load_floats(x + pixel * r.channels, count);
        const Mask better = beats(value, best);
        best = hn::IfThenElse(better, value, best);
        which = hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, static_cast<std::int32_t>(pixel)), which);
      });
      FloatVector given = load_floats(dy + c, count);
      if (positive) given = hn::IfThenElseZero(hn::Gt(best, hn::Zero(d)), given);
      const auto put = [&](std::int64_t pixel) HWY_ATTR {
        const auto here = hn::Eq(which, hn::Set(di, static_cast<std::int32_t>(pixel)));
        store_floats(hn::IfThenElseZero(hn::RebindMask(d, here), given), out + pixel * r.channels, count);
      };
      put(columns.begin);
      each_other_cell(r, columns, put);
      if (sums) store_floats(hn::Add(load_floats(sums + c, count), given), sums + c, count);
    }
  }
}

PoolKernels find(DType images) {
  if (images == bf16) return {&largest<bfloat16>, &spread<bfloat16>};
  return {&largest<float>, &spread<float>};
}

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
namespace {
HWY_EXPORT(find);
}

PoolKernels pool_kernels(DType images) { return HWY_DYNAMIC_DISPATCH(find)(images); }

}  // namespace varve::cpu
#endif
