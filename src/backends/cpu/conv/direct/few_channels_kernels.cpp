#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/direct/few_channels_kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "backends/cpu/conv/direct/few_channels_kernels.h"
#include "backends/cpu/simd/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::plain::HWY_NAMESPACE {
namespace {
using namespace varve::cpu::HWY_NAMESPACE;  // vectors of f32

using F32 = Floats16;
using V = FloatVector;

struct Finish {
  bool relu;
  std::int64_t count;
};

HWY_INLINE void finish_pixel(float* y, V low, V high, const Finish& f) {
  if (f.relu) {  // the second operand is the one that comes through as NaN
    low = hn::Max(hn::Zero(F32()), low);
    high = hn::Max(hn::Zero(F32()), high);
  }
  store_floats(low, y, f.count);
  if (f.count > float_lanes()) store_floats(high, y + float_lanes(), f.count - float_lanes());
}

// Named, not in arrays: vectors of some instruction sets have no size that the compiler knows.
template <int kPixels>
HWY_INLINE void pixels(const FewChannelsRow& r, std::int64_t first) {
  const F32 d;
  const std::int64_t lanes = float_lanes(), step = r.x_pixel;
  const V zero_low = r.bias ? hn::LoadU(d, r.bias) : hn::Zero(d);
  const V zero_high = r.bias ? hn::LoadU(d, r.bias + lanes) : hn::Zero(d);
  V c00 = zero_low, c01 = zero_high, c10 = c00, c11 = c01, c20 = c00, c21 = c01;
  V c30 = c00, c31 = c01, c40 = c00, c41 = c01, c50 = c00, c51 = c01;
  const float* HWY_RESTRICT b = r.weights;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const float* HWY_RESTRICT a = r.x + first * step + row * r.x_row;
    for (std::int64_t k = 0; k < r.run; ++k, ++a, b += 2 * lanes) {
      const V low = hn::LoadU(d, b), high = hn::LoadU(d, b + lanes);
      const auto add = [&](std::int64_t pixel, V & sum_low, V & sum_high) HWY_ATTR __attribute__((always_inline)) {
        const V x = hn::Set(d, a[pixel * step]);
        sum_low = hn::MulAdd(x, low, sum_low);
        sum_high = hn::MulAdd(x, high, sum_high);
      };
      add(0, c00, c01);
      if constexpr (kPixels > 1) add(1, c10, c11);
      if constexpr (kPixels > 2) add(2, c20, c21);
      if constexpr (kPixels > 3) add(3, c30, c31);
      if constexpr (kPixels > 4) add(4, c40, c41);
      if constexpr (kPixels > 5) add(5, c50, c51);
    }
  }
  float* y = r.y + first * r.channels;
  const Finish finish{r.relu, r.count};
  finish_pixel(y, c00, c01, finish);
  if constexpr (kPixels > 1) finish_pixel(y + r.channels, c10, c11, finish);
  if constexpr (kPixels > 2) finish_pixel(y + 2 * r.channels, c20, c21, finish);
  if constexpr (kPixels > 3) finish_pixel(y + 3 * r.channels, c30, c31, finish);
  if constexpr (kPixels > 4) finish_pixel(y + 4 * r.channels, c40, c41, finish);
  if constexpr (kPixels > 5) finish_pixel(y + 5 * r.channels, c50, c51, finish);
}

void row(const FewChannelsRow& r) {
  std::int64_t p = 0;
  for (; p + kFewChannelsBlock <= r.pixels; p += kFewChannelsBlock) pixels<kFewChannelsBlock>(r, p);
  switch (r.pixels - p) {
    case 5:
      return pixels<5>(r, p);
    case 4:
      return pixels<4>(r, p);
    case 3:
      return pixels<3>(r, p);
    case 2:
      return pixels<2>(r, p);
    case 1:
      return pixels<1>(r, p);
    default:
      return;
  }
}

HWY_INLINE void add_tap(float* sums, V low, V high) {
  const F32 d;
  hn::StoreU(hn::Add(hn::LoadU(d, sums), low), d, sums);
  hn::StoreU(hn::Add(hn::LoadU(d, sums + float_lanes()), high), d, sums + float_lanes());
}

template <int kTaps>
HWY_INLINE void taps(const FewChannelsSums& s) {
  const F32 d;
  const std::int64_t lanes = float_lanes(), rest = s.count - lanes;
  V c00 = hn::Zero(d), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  V c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  const float* HWY_RESTRICT dy = s.dy;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    std::int64_t at = row * s.x_row;
    for (std::int64_t p = 0; p < s.pixels; ++p, at += s.x_pixel, dy += s.dy_pixel) {
      const V low = load_floats(dy, s.count), high = rest > 0 ? load_floats(dy + lanes, rest) : hn::Zero(d);
      const auto add = [&](int tap, V& sum_low, V& sum_high) HWY_ATTR __attribute__((always_inline)) {
        const V x = hn::Set(d, s.x[tap][at]);
        sum_low = hn::MulAdd(x, low, sum_low);
        sum_high = hn::MulAdd(x, high, sum_high);
      };
      add(0, c00, c01);
      if constexpr (kTaps > 1) add(1, c10, c11);
      if constexpr (kTaps > 2) add(2, c20, c21);
      if constexpr (kTaps > 3) add(3, c30, c31);
      if constexpr (kTaps > 4) add(4, c40, c41);
      if constexpr (kTaps > 5) add(5, c50, c51);
    }
  }
  float* sums = s.sums;
  add_tap(sums, c00, c01);
  if constexpr (kTaps > 1) add_tap(sums + 2 * lanes, c10, c11);
  if constexpr (kTaps > 2) add_tap(sums + 4 * lanes, c20, c21);
  if constexpr (kTaps > 3) add_tap(sums + 6 * lanes, c30, c31);
  if constexpr (kTaps > 4) add_tap(sums + 8 * lanes, c40, c41);
  if constexpr (kTaps > 5) add_tap(sums + 10 * lanes, c50, c51);
}

void sums(const FewChannelsSums& s) {
  switch (s.taps) {
    case 6:
      return taps<6>(s);
    case 5:
      return taps<5>(s);
    case 4:
      return taps<4>(s);
    case 3:
      return taps<3>(s);
    case 2:
      return taps<2>(s);
    default:
      return taps<1>(s);
  }
}

FewChannelsKernels find() { return {static_cast<int>(2 * hn::Lanes(F32())), &row, &sums}; }

}  // namespace
}  // namespace varve::cpu::plain::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu::plain {
namespace {
HWY_EXPORT(find);
}

FewChannelsKernels few_channels_kernels() { return HWY_DYNAMIC_DISPATCH(find)(); }

}  // namespace varve::cpu::plain
#endif
