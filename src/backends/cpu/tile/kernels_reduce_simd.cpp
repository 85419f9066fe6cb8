// Reductions of contiguous runs in f32 and f64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile/kernels_reduce_simd.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <limits>

#include "backends/cpu/tile/kernels_simd.h"
#include "backends/cpu/tile/loops-inl.h"
#include "backends/cpu/tile/reduction.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

template <Reduce op, class V>
HWY_INLINE V fold2(V a, V b) {
  if constexpr (op == Reduce::sum) return hn::Add(a, b);
  if constexpr (op == Reduce::prod) return hn::Mul(a, b);
  if constexpr (op == Reduce::max) return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Gt(a, b), a, b));
  if constexpr (op == Reduce::min) return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Lt(a, b), a, b));
}

// Element i goes to partial i mod kPartials whatever the width of a vector, so every instruction set gives the same
// bits.
template <class T>
inline constexpr std::size_t kPartials = 256 / sizeof(T);

template <class T, Reduce op>
double fold_run(const T* x, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t kWidth = hn::MaxLanes(d), kVectors = kPartials<T> / kWidth;
  const auto neutral = hn::Set(d, static_cast<T>(identity<double>(op)));
  hn::Vec<Tag<T>> acc[kVectors];
  for (auto& a : acc) a = neutral;
  std::size_t i = 0;
  for (; i + kPartials<T> <= n; i += kPartials<T>) {
    for (std::size_t v = 0; v < kVectors; ++v) acc[v] = fold2<op>(acc[v], hn::LoadU(d, x + i + v * kWidth));
  }
  for (std::size_t v = 0; i < n; ++v, i += kWidth) {
    const auto mask = hn::FirstN(d, n - i);
    acc[v] = fold2<op>(acc[v], hn::IfThenElse(mask, load_some(d, x + i, n - i), neutral));
  }
  // Halve the partials down to 64 bytes with whole vectors; the rest in double.
  constexpr std::size_t kLast = 64 / sizeof(T);
  for (std::size_t half = kVectors / 2; half * kWidth >= kLast; half /= 2) {
    for (std::size_t v = 0; v < half; ++v) acc[v] = fold2<op>(acc[v], acc[v + half]);
  }
  HWY_ALIGN T last[kLast];
  for (std::size_t v = 0; v * kWidth < kLast; ++v) hn::Store(acc[v], d, last + v * kWidth);
  double w[8];
  for (std::size_t k = 0; k < 8; ++k)
    w[k] = kLast == 8 ? last[k] : combine_pair<op, double>(last[k], last[kLast - 8 + k]);
  const double even = combine_pair<op>(combine_pair<op>(w[0], w[4]), combine_pair<op>(w[2], w[6]));
  const double odd = combine_pair<op>(combine_pair<op>(w[1], w[5]), combine_pair<op>(w[3], w[7]));
  return combine_pair<op>(even, odd);
}

// Four short segments at a time: their sums do not wait for each other.
template <class T, Reduce op>
HWY_INLINE void fold_short(const T* x, std::size_t length, double* to) {
  double s0 = to[0], s1 = to[1], s2 = to[2], s3 = to[3];
  for (std::size_t i = 0; i < length; ++i) {
    s0 = combine_pair<op, double>(s0, x[i]);
    s1 = combine_pair<op, double>(s1, x[i + length]);
    s2 = combine_pair<op, double>(s2, x[i + 2 * length]);
    s3 = combine_pair<op, double>(s3, x[i + 3 * length]);
  }
  to[0] = s0, to[1] = s1, to[2] = s2, to[3] = s3;
}

template <class T, Reduce op>
void segments(const void* tile, std::size_t count, std::size_t length, void* acc) {
  const T* x = static_cast<const T*>(tile);
  double* to = static_cast<double*>(acc);
  std::size_t s = 0;
  if (length < kPartials<T> / 2) {
    for (; s + 4 <= count; s += 4) fold_short<T, op>(x + s * length, length, to + s);
    for (; s < count; ++s) {
      for (std::size_t i = 0; i < length; ++i) to[s] = combine_pair<op, double>(to[s], x[s * length + i]);
    }
    return;
  }
  for (; s < count; ++s) to[s] = combine_pair<op>(to[s], fold_run<T, op>(x + s * length, length));
}

template <class T>
SegmentFn segment_of(Reduce op) {
  switch (op) {
    case Reduce::prod:
      return &segments<T, Reduce::prod>;
    case Reduce::max:
      return &segments<T, Reduce::max>;
    case Reduce::min:
      return &segments<T, Reduce::min>;
    default:
      return &segments<T, Reduce::sum>;
  }
}
SegmentFn segment_f32(Reduce op) { return segment_of<float>(op); }
SegmentFn segment_f64(Reduce op) { return segment_of<double>(op); }

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(segment_f32);
HWY_EXPORT(segment_f64);

SegmentFn segment_kernel_f32(Reduce op) { return HWY_DYNAMIC_DISPATCH(segment_f32)(op); }
SegmentFn segment_kernel_f64(Reduce op) { return HWY_DYNAMIC_DISPATCH(segment_f64)(op); }
}  // namespace varve::cpu
#endif
