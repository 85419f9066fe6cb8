#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/matmul/gemm/micro.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <array>
#include <cstddef>

#include "backends/cpu/matmul/gemm/micro.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::plain::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Sums, the vectors of one row of B and one of A: 24 + 3 + 1 of the 32 registers of AVX-512, 12 + 3 + 1 of the 16 of
// AVX2. Every row of A more is a reason less to read B again.
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
constexpr int kMost = 3;           // vectors of a row
constexpr std::int64_t kSome = 8;  // steps between two looks ahead

// Highway's tags cap the vector at 64 bytes, for which the callers leave room.
template <class T>
using Tag = hn::CappedTag<T, 64 / sizeof(T)>;

template <class T, int R, int V>
using Sums = std::array<std::array<hn::Vec<Tag<T>>, V>, R>;

template <class T, int R, int V, class Result>
HWY_INLINE void store(const MicroBlock& block, const Sums<T, R, V>& sums, const Result& result) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  T* c = static_cast<T*>(block.c);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < R; ++i, c += block.stride)
#pragma GCC unroll 3
    for (std::size_t v = 0; v < V; ++v) hn::StoreU(result(sums[i][v], c + v * lanes), d, c + v * lanes);
}

template <class T, int R, int V>
HWY_INLINE void step(const T* a, std::int64_t a_row, const T* HWY_RESTRICT b, Sums<T, R, V>& sums) {
  const Tag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::array<hn::Vec<Tag<T>>, V> row;
#pragma GCC unroll 3
  for (std::size_t v = 0; v < V; ++v) row[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < R; ++i) {
    const auto x = hn::Set(d, a[static_cast<std::int64_t>(i) * a_row]);
#pragma GCC unroll 3
    for (std::size_t v = 0; v < V; ++v) sums[i][v] = hn::MulAdd(x, row[v], sums[i][v]);
  }
}

// A packed, or as it lies: the rows after these are then prefetched meanwhile, and so is what the next block adds to, a
// row at a time, since a core can wait for few lines at once.
template <class T, int R, int V, bool packed>
HWY_INLINE void add_products(const MicroBlock& block, Sums<T, R, V>& sums) {
  const std::size_t lanes = hn::Lanes(Tag<T>());
  const T* a = static_cast<const T*>(block.a);
  const T* HWY_RESTRICT b = static_cast<const T*>(block.b);
  const T* c = static_cast<const T*>(block.next);
  const std::int64_t row = packed ? 1 : block.row, next = packed ? kRows : block.step;
  std::int64_t rows = c ? R : 0;
  for (std::int64_t left = block.k, some = 0; left > 0; left -= some, --rows) {
    some = left < kSome ? left : kSome;
    if (rows > 0) {
      for (std::size_t v = 0; v < V; ++v) hwy::Prefetch(c + v * lanes);
      c += block.stride;
    }
    if (!packed)
      for (int i = 0; i < R; ++i) hwy::Prefetch(a + (R + i) * row);
    for (std::int64_t s = 0; s < some; ++s, a += next, b += V * lanes) step<T, R, V>(a, row, b, sums);
  }
}

template <class T, int R, int V>
void tile(const MicroBlock& block) {
  const Tag<T> d;
  Sums<T, R, V> sums;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < R; ++i)
#pragma GCC unroll 3
    for (std::size_t v = 0; v < V; ++v) sums[i][v] = hn::Zero(d);
  if (block.row == 1 && block.step == kRows)
    add_products<T, R, V, true>(block, sums);
  else
    add_products<T, R, V, false>(block, sums);
  const auto scale = hn::Set(d, block.scale ? *static_cast<const T*>(block.scale) : T{1});
  if (block.accumulate)
    store<T, R, V>(block, sums, [&](auto sum, const T* c) HWY_ATTR { return hn::MulAdd(scale, sum, hn::LoadU(d, c)); });
  else
    store<T, R, V>(block, sums, [&](auto sum, const T*) HWY_ATTR { return sum; });
}

// In squares of 4×4; what is left over element by element.
template <class T>
void transpose(const void* from, std::int64_t stride, std::int64_t columns, std::int64_t k, std::int64_t width,
               void* to) {
  [[maybe_unused]] const hn::FixedTag<T, 16 / sizeof(T)> d;
  std::int64_t first = 0;
  for (; first + 4 <= columns; first += 4) {
    const T* row = static_cast<const T*>(from) + first * stride;
    T* out = static_cast<T*>(to) + first;
    std::int64_t p = 0;
    if constexpr (sizeof(T) == 4)
      for (; p + 4 <= k; p += 4, row += 4, out += 4 * width) {
        const auto r0 = hn::LoadU(d, row), r1 = hn::LoadU(d, row + stride);
        const auto r2 = hn::LoadU(d, row + 2 * stride), r3 = hn::LoadU(d, row + 3 * stride);
        const auto low01 = hn::InterleaveLower(d, r0, r1), high01 = hn::InterleaveUpper(d, r0, r1);
        const auto low23 = hn::InterleaveLower(d, r2, r3), high23 = hn::InterleaveUpper(d, r2, r3);
        hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, out);
        hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, out + width);
        hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, out + 2 * width);
        hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, out + 3 * width);
      }
    for (; p < k; ++p, ++row, out += width)
      for (std::int64_t i = 0; i < 4; ++i) out[i] = row[i * stride];
  }
  for (; first < columns; ++first)
    for (std::int64_t p = 0; p < k; ++p)
      static_cast<T*>(to)[p * width + first] = static_cast<const T*>(from)[first * stride + p];
}

template <class T>
Micro micro() {
  static constexpr std::array<Micro::Run, 2 * kMost> kRuns = {&tile<T, kRows, 1>,     &tile<T, kRows, 2>,
                                                              &tile<T, kRows, 3>,     &tile<T, kRows / 2, 1>,
                                                              &tile<T, kRows / 2, 2>, &tile<T, kRows / 2, 3>};
  return {kRows, static_cast<int>(hn::Lanes(Tag<T>())), kMost, kRuns.data(), &transpose<T>};
}

Micro float_micro() { return micro<float>(); }
Micro double_micro() { return micro<double>(); }

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
void integer_tile(const MicroBlock& block) {
  const auto* a = static_cast<const std::uint64_t*>(block.a);
  const auto* b = static_cast<const std::uint64_t*>(block.b);
  std::uint64_t sums[kIntegerRows][kIntegerColumns] = {};
  for (std::int64_t p = 0; p < block.k; ++p, a += block.step, b += kIntegerColumns)
    for (int i = 0; i < kIntegerRows; ++i)
#pragma omp simd
      for (int j = 0; j < kIntegerColumns; ++j) sums[i][j] += a[i * block.row] * b[j];
  for (int i = 0; i < kIntegerRows; ++i) {
    auto* c = static_cast<std::uint64_t*>(block.c) + i * block.stride;
    for (int j = 0; j < kIntegerColumns; ++j) c[j] = sums[i][j] + (block.accumulate ? c[j] : 0);
  }
}

void integer_turn(const void* from, std::int64_t stride, std::int64_t columns, std::int64_t k, std::int64_t width,
                  void* to) {
  for (std::int64_t p = 0; p < k; ++p)
    for (std::int64_t i = 0; i < columns; ++i)
      static_cast<std::int64_t*>(to)[p * width + i] = static_cast<const std::int64_t*>(from)[i * stride + p];
}

constexpr std::array<Micro::Run, 2> kIntegerRuns = {&integer_tile, &integer_tile};

}  // namespace

const Micro& micro_kernel(DType compute) {
  static const Micro floats = HWY_DYNAMIC_DISPATCH(float_micro)();
  static const Micro doubles = HWY_DYNAMIC_DISPATCH(double_micro)();
  static const Micro integers = {kIntegerRows, kIntegerColumns, 1, kIntegerRuns.data(), &integer_turn};
  return compute == f32 ? floats : compute == f64 ? doubles : integers;
}

}  // namespace varve::cpu::plain
#endif
