// Products of small f32 matrices that lie in the caches, for one instruction set: blocks of C in registers, A read
// element by element, B by rows. Sums run in order of k whatever the instruction set.
#if defined(VARVE_ATTENTION_BLOCK_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VARVE_ATTENTION_BLOCK_PRODUCT_INL_H
#undef VARVE_ATTENTION_BLOCK_PRODUCT_INL_H
#else
#define VARVE_ATTENTION_BLOCK_PRODUCT_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "backends/cpu/simd/load_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {

inline constexpr std::int64_t kTileRows = 6;
// Sums, a row of B and one element of A fill the registers: 32 of AVX-512, 16 elsewhere.
inline constexpr std::size_t kTileVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

// Element (i, p) of A lies at data + i·row + p·step. Rows of B and C are `stride` apart and whole in vectors: the
// columns past the last one are computed too, and mean nothing.
struct BlockA {
  const float* data;
  std::int64_t row, step;
};
struct BlockB {
  const float* data;
  std::int64_t stride;
};
struct BlockC {
  float* data;
  std::int64_t stride;
  bool add;  // to what is there
};

template <std::size_t rows, std::size_t vectors>
void block_tile(BlockA a, BlockB b, std::int64_t k, BlockC c) {
  const Tag<float> d;
  constexpr std::size_t kLanes = hn::MaxLanes(Tag<float>());
  using V = hn::Vec<Tag<float>>;
  V sums[rows][vectors];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (std::size_t j = 0; j < vectors; ++j)
      sums[i][j] = c.add ? hn::LoadU(d, c.data + static_cast<std::int64_t>(i) * c.stride + j * kLanes) : hn::Zero(d);
  const float* HWY_RESTRICT pa = a.data;
  const float* HWY_RESTRICT pb = b.data;
  for (std::int64_t p = 0; p < k; ++p, pa += a.step, pb += b.stride) {
    V row[vectors];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < vectors; ++j) row[j] = hn::LoadU(d, pb + j * kLanes);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < rows; ++i) {
      const V x = hn::Set(d, pa[static_cast<std::int64_t>(i) * a.row]);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < vectors; ++j) sums[i][j] = hn::MulAdd(x, row[j], sums[i][j]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (std::size_t j = 0; j < vectors; ++j)
      hn::StoreU(sums[i][j], d, c.data + static_cast<std::int64_t>(i) * c.stride + j * kLanes);
}

using BlockTile = void (*)(BlockA, BlockB, std::int64_t k, BlockC);

template <std::size_t... n>
constexpr auto block_tiles(std::index_sequence<n...>) {
  return std::array<BlockTile, sizeof...(n)>{&block_tile<n / kTileVectors + 1, n % kTileVectors + 1>...};
}

// C = A·B over up to 6 rows and any number of columns.
HWY_INLINE void rows_product(BlockA a, BlockB b, std::int64_t rows, std::int64_t columns, std::int64_t k, BlockC c) {
  static constexpr auto kTiles = block_tiles(std::make_index_sequence<kTileRows * kTileVectors>());
  constexpr std::int64_t kLanes = hn::MaxLanes(Tag<float>()), kMost = kLanes * kTileVectors;
  for (std::int64_t j = 0; j < columns; j += kMost) {
    const std::int64_t vectors = (std::min(columns - j, kMost) + kLanes - 1) / kLanes;
    const auto tile = static_cast<std::size_t>((rows - 1) * static_cast<std::int64_t>(kTileVectors) + vectors - 1);
    kTiles[tile](a, {b.data + j, b.stride}, k, {c.data + j, c.stride, c.add});
  }
}

}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
