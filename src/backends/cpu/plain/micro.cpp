#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/plain/micro.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/plain/micro.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::plain::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kRows = 6;
// With 12 sums, two vectors of B and one of A the 16 registers of AVX2 are full. Highway's tags cap the vector at 64
// bytes, for which the callers leave room.
template <class T>
using Tag = hn::CappedTag<T, 64 / sizeof(T)>;

template <class T, class V>
HWY_INLINE void finish(T* c, V low, V high, bool accumulate) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  if (accumulate) {
    low = hn::Add(low, hn::LoadU(d, c));
    high = hn::Add(high, hn::LoadU(d, c + lanes));
  }
  hn::StoreU(low, d, c);
  hn::StoreU(high, d, c + lanes);
}

// Vectors of some instruction sets have no size the compiler knows, hence names and no arrays.
template <class T>
void tile(const void* packed_a, const void* packed_b, std::int64_t k, void* out, std::int64_t stride, bool accumulate) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const T* HWY_RESTRICT a = static_cast<const T*>(packed_a);
  const T* HWY_RESTRICT b = static_cast<const T*>(packed_b);
  auto c00 = hn::Zero(d), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  auto c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  for (std::int64_t p = 0; p < k; ++p, a += kRows, b += 2 * lanes) {
    const auto low = hn::LoadU(d, b), high = hn::LoadU(d, b + lanes);
    auto x = hn::Set(d, a[0]);
    c00 = hn::MulAdd(x, low, c00);
    c01 = hn::MulAdd(x, high, c01);
    x = hn::Set(d, a[1]);
    c10 = hn::MulAdd(x, low, c10);
    c11 = hn::MulAdd(x, high, c11);
    x = hn::Set(d, a[2]);
    c20 = hn::MulAdd(x, low, c20);
    c21 = hn::MulAdd(x, high, c21);
    x = hn::Set(d, a[3]);
    c30 = hn::MulAdd(x, low, c30);
    c31 = hn::MulAdd(x, high, c31);
    x = hn::Set(d, a[4]);
    c40 = hn::MulAdd(x, low, c40);
    c41 = hn::MulAdd(x, high, c41);
    x = hn::Set(d, a[5]);
    c50 = hn::MulAdd(x, low, c50);
    c51 = hn::MulAdd(x, high, c51);
  }
  T* c = static_cast<T*>(out);
  finish(c, c00, c01, accumulate);
  finish(c + stride, c10, c11, accumulate);
  finish(c + 2 * stride, c20, c21, accumulate);
  finish(c + 3 * stride, c30, c31, accumulate);
  finish(c + 4 * stride, c40, c41, accumulate);
  finish(c + 5 * stride, c50, c51, accumulate);
}

Micro float_micro() { return {kRows, static_cast<int>(2 * hn::Lanes(Tag<float>())), &tile<float>}; }
Micro double_micro() { return {kRows, static_cast<int>(2 * hn::Lanes(Tag<double>())), &tile<double>}; }

}  // namespace
}  // namespace varve::cpu::plain::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu::plain {
namespace {

HWY_EXPORT(float_micro);
HWY_EXPORT(double_micro);

constexpr int kIntegerRows = 4, kIntegerColumns = 8;

// Unsigned, so that overflow wraps.
void integer_tile(const void* packed_a, const void* packed_b, std::int64_t k, void* out, std::int64_t stride,
                  bool accumulate) {
  const auto* a = static_cast<const std::uint64_t*>(packed_a);
  const auto* b = static_cast<const std::uint64_t*>(packed_b);
  std::uint64_t sums[kIntegerRows][kIntegerColumns] = {};
  for (std::int64_t p = 0; p < k; ++p, a += kIntegerRows, b += kIntegerColumns)
    for (int i = 0; i < kIntegerRows; ++i)
#pragma omp simd
      for (int j = 0; j < kIntegerColumns; ++j) sums[i][j] += a[i] * b[j];
  for (int i = 0; i < kIntegerRows; ++i) {
    auto* c = static_cast<std::uint64_t*>(out) + i * stride;
    for (int j = 0; j < kIntegerColumns; ++j) c[j] = sums[i][j] + (accumulate ? c[j] : 0);
  }
}

}  // namespace

Micro micro_kernel(DType compute) {
  if (compute == f32) return HWY_DYNAMIC_DISPATCH(float_micro)();
  if (compute == f64) return HWY_DYNAMIC_DISPATCH(double_micro)();
  return {kIntegerRows, kIntegerColumns, &integer_tile};
}

}  // namespace varve::cpu::plain
#endif
