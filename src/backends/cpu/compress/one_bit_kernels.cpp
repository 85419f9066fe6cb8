#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/compress/one_bit_kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/compress/one_bit_kernels.h"
#include "backends/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

void gather_run(const float* x, const float* kept, std::size_t n, const OneBitSums& sums) {
  const Floats d;
  const Vf zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf v = hn::Add(load_some(d, x + i, left), load_some(d, kept + i, left));
    const auto above = hn::Ge(v, zero);  // false for NaN, which spoils the mean below
    store_some(d, hn::Add(load_some(d, sums.above + i, left), hn::IfThenElseZero(above, v)), sums.above + i, left);
    store_some(d, hn::Add(load_some(d, sums.below + i, left), hn::IfThenZeroElse(above, v)), sums.below + i, left);
    store_some(d, hn::Add(load_some(d, sums.count + i, left), hn::IfThenElseZero(above, one)), sums.count + i, left);
  });
}

// Vectors of fewer than 8 lanes share a byte.
template <class M>
HWY_INLINE void store_bits(M mask, std::size_t i, std::uint8_t* bits) {
  const Floats d;
  std::uint8_t some[8] = {};
  const std::size_t bytes = hn::StoreMaskBits(d, mask, some);
  if (hn::Lanes(d) >= 8)
    std::memcpy(bits + i / 8, some, bytes);
  else
    bits[i / 8] = static_cast<std::uint8_t>((i % 8 == 0 ? 0 : bits[i / 8]) | (some[0] << (i % 8)));
}

HWY_INLINE auto load_bits(const std::uint8_t* bits, std::size_t i) {
  const Floats d;
  if (hn::Lanes(d) >= 8) return hn::LoadMaskBits(d, bits + i / 8);
  const std::uint8_t some[8] = {static_cast<std::uint8_t>(bits[i / 8] >> (i % 8))};
  return hn::LoadMaskBits(d, some);
}

constexpr std::size_t kTileBytes = kOneBitTile / 8, kSlack = 8;  // Highway reads and writes whole words of bits

void split_run(const float* x, const float* kept, std::size_t n, const OneBitMeans& means, float* rest,
               std::uint8_t* bits) {
  const Floats d;
  std::uint8_t tile[kTileBytes + kSlack];
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf v = hn::Add(load_some(d, x + i, left), load_some(d, kept + i, left));
    auto above = hn::Ge(v, hn::Zero(d));
    const Vf mean = hn::IfThenElse(above, load_some(d, means.above + i, left), load_some(d, means.below + i, left));
    store_some(d, hn::Sub(v, mean), rest + i, left);
    if (HWY_UNLIKELY(left < hn::Lanes(d))) above = hn::And(above, hn::FirstN(d, left));
    store_bits(above, i, tile);
  });
  std::memcpy(bits, tile, (n + 7) / 8);
}

void add_run(const std::uint8_t* bits, std::size_t n, const OneBitMeans& means, bool first, float scale, float* out) {
  const Floats d;
  const Vf by = hn::Set(d, scale);
  std::uint8_t tile[kTileBytes + kSlack];
  std::memcpy(tile, bits, (n + 7) / 8);
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf mean =
        hn::IfThenElse(load_bits(tile, i), load_some(d, means.above + i, left), load_some(d, means.below + i, left));
    const Vf sum = first ? mean : hn::Add(load_some(d, out + i, left), mean);
    store_some(d, hn::Mul(sum, by), out + i, left);
  });
}

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(gather_run);
HWY_EXPORT(split_run);
HWY_EXPORT(add_run);

void one_bit_gather(const float* x, const float* kept, std::int64_t n, const OneBitSums& sums) {
  HWY_DYNAMIC_DISPATCH(gather_run)(x, kept, static_cast<std::size_t>(n), sums);
}
void one_bit_split(const float* x, const float* kept, std::int64_t n, const OneBitMeans& means, float* rest,
                   std::uint8_t* bits) {
  HWY_DYNAMIC_DISPATCH(split_run)(x, kept, static_cast<std::size_t>(n), means, rest, bits);
}
void one_bit_add(const std::uint8_t* bits, std::int64_t n, const OneBitMeans& means, bool first, float scale,
                 float* out) {
  HWY_DYNAMIC_DISPATCH(add_run)(bits, static_cast<std::size_t>(n), means, first, scale, out);
}

}  // namespace varve::cpu
#endif
