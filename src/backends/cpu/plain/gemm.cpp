#include "backends/cpu/plain/gemm.h"

#include <algorithm>

#include "backends/cpu/loops.h"
#include "backends/cpu/tile/scratch.h"

namespace varve::cpu::plain {
namespace {

// Panels of this depth and these tiles stay in the second-level cache.
constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kTileRows = 240;
constexpr std::int64_t kTileColumns = 512;
constexpr std::int64_t kTasksEach = 4;  // tiles that every lane should find

std::int64_t up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

template <class T, class C>
void pack(const std::byte* from, std::int64_t stride, std::int64_t k_stride, std::int64_t count, std::int64_t k,
          int width, std::byte* panels) {
  const T* source = reinterpret_cast<const T*>(from);
  C* out = reinterpret_cast<C*>(panels);
  for (std::int64_t first = 0; first < count; first += width, source += width * stride, out += width * k) {
    const std::int64_t filled = std::min<std::int64_t>(width, count - first);
    if (filled < width) std::fill(out, out + width * k, C{0});
    if (k_stride == 1) {
      for (std::int64_t i = 0; i < filled; ++i)
        for (std::int64_t p = 0; p < k; ++p) out[p * width + i] = cast_to<C>(source[i * stride + p]);
    } else if (stride == 1 && filled == width) {
      for (std::int64_t p = 0; p < k; ++p)
#pragma omp simd
        for (int i = 0; i < width; ++i) out[p * width + i] = cast_to<C>(source[p * k_stride + i]);
    } else {
      for (std::int64_t p = 0; p < k; ++p)
        for (std::int64_t i = 0; i < filled; ++i) out[p * width + i] = cast_to<C>(source[i * stride + p * k_stride]);
    }
  }
}

template <class T, class C>
void unpack(const std::byte* sums, std::int64_t columns, std::byte* to, std::int64_t stride) {
  const C* from = reinterpret_cast<const C*>(sums);
  T* out = reinterpret_cast<T*>(to);
  for (std::int64_t j = 0; j < columns; ++j) out[j * stride] = cast_to<T>(from[j]);
}

// f(type of the elements, type of their sums)
template <class F>
auto with_sums(DType dtype, F f) {
  return dispatch(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (std::is_same_v<T, double>)
      return f(type, std::type_identity<double>{});
    else if constexpr (std::is_integral_v<T>)
      return f(type, std::type_identity<std::int64_t>{});
    else
      return f(type, std::type_identity<float>{});
  });
}

}  // namespace

struct Gemm::Tile {
  std::int64_t a, b, c;  // elements to its first row, column and element
  std::int64_t rows, columns;
};

Gemm::Gemm(const Product& product, const Options& options)
    : product_(product),
      options_(options),
      micro_(micro_kernel(sum_type(options.in))),
      pack_(with_sums(
          options.in,
          []<class T, class C>(std::type_identity<T>, std::type_identity<C>) -> Pack { return &pack<T, C>; })),
      sum_bytes_(element_bytes(sum_type(options.in))),
      in_bytes_(element_bytes(options.in)),
      out_bytes_(element_bytes(options.out)) {
  if (options.out != sum_type(options.in) || product.c.col != 1)
    unpack_ = with_sums(options.out, []<class T, class C>(std::type_identity<T>, std::type_identity<C>) -> Unpack {
      return &unpack<T, C>;
    });
  if (product_.empty() || product_.k == 0) return;
  choose_tiles();
  lane_bytes_ = round_up(static_cast<std::size_t>(tile_rows_ * depth_ * sum_bytes_)) +
                round_up(static_cast<std::size_t>(tile_columns_ * depth_ * sum_bytes_)) +
                (unpack_ ? round_up(static_cast<std::size_t>(tile_rows_ * tile_columns_ * sum_bytes_)) : 0);
}

void Gemm::choose_tiles() {
  depth_ = std::min(kDepth, product_.k);
  tile_rows_ = up(std::min(kTileRows, product_.m), micro_.rows);
  tile_columns_ = up(std::min(kTileColumns, product_.n), micro_.columns);
  const auto count = [&] {
    row_tiles_ = up(product_.m, tile_rows_) / tile_rows_;
    column_tiles_ = up(product_.n, tile_columns_) / tile_columns_;
    return product_.count() * row_tiles_ * column_tiles_;
  };
  const std::int64_t wanted = options_.lanes > 1 ? options_.lanes * kTasksEach : 1;
  // Smaller tiles pack more for each product: not below a few panels.
  while (count() < wanted && (tile_rows_ > 8 * micro_.rows || tile_columns_ > 4 * micro_.columns)) {
    if (tile_columns_ > 4 * micro_.columns && tile_columns_ >= tile_rows_)
      tile_columns_ = up(tile_columns_ / 2, micro_.columns);
    else
      tile_rows_ = up(tile_rows_ / 2, micro_.rows);
  }
  lanes_ = static_cast<int>(std::clamp<std::int64_t>(count(), 1, options_.lanes));
}

Gemm::Tile Gemm::tile(std::int64_t number) const {
  const std::int64_t column = number % column_tiles_ * tile_columns_;
  const std::int64_t row = number / column_tiles_ % row_tiles_ * tile_rows_;
  const std::int64_t matrix = number / column_tiles_ / row_tiles_;
  const Product& p = product_;
  return {p.a.offset(p.batch, matrix) + row * p.a.row, p.b.offset(p.batch, matrix) + column * p.b.col,
          p.c.offset(p.batch, matrix) + row * p.c.row + column * p.c.col, std::min(tile_rows_, p.m - row),
          std::min(tile_columns_, p.n - column)};
}

void Gemm::run(const void* a, const void* b, void* c, void* scratch) const {
  auto* out = static_cast<std::byte*>(c);
  if (product_.empty()) return;
  if (product_.k == 0) return options_.accumulate ? void() : fill_zero(out);
  const std::int64_t tiles = product_.count() * row_tiles_ * column_tiles_;
  parallel_for(lanes_, 1, [&](std::int64_t lane, std::int64_t) {
    std::byte* own = static_cast<std::byte*>(scratch) + lane * static_cast<std::int64_t>(lane_bytes_);
    for (std::int64_t number = lane; number < tiles; number += lanes_)
      run_tile(tile(number), static_cast<const std::byte*>(a), static_cast<const std::byte*>(b), out, own);
  });
}

void Gemm::run_tile(const Tile& t, const std::byte* a, const std::byte* b, std::byte* c, std::byte* scratch) const {
  Carver memory(scratch);
  std::byte* panels_a = memory.take<std::byte>(static_cast<std::size_t>(tile_rows_ * depth_ * sum_bytes_));
  std::byte* panels_b = memory.take<std::byte>(static_cast<std::size_t>(tile_columns_ * depth_ * sum_bytes_));
  std::byte* sums = unpack_ ? memory.take<std::byte>(0) : c + t.c * out_bytes_;
  const std::int64_t stride = unpack_ ? tile_columns_ : product_.c.row;
  for (std::int64_t first = 0; first < product_.k; first += depth_) {
    const std::int64_t depth = std::min(depth_, product_.k - first);
    pack_(a + (t.a + first * product_.a.col) * in_bytes_, product_.a.row, product_.a.col, t.rows, depth, micro_.rows,
          panels_a);
    pack_(b + (t.b + first * product_.b.row) * in_bytes_, product_.b.col, product_.b.row, t.columns, depth,
          micro_.columns, panels_b);
    multiply(t, depth, panels_a, panels_b, sums, stride, first > 0 || options_.accumulate);
  }
  if (!unpack_) return;
  for (std::int64_t i = 0; i < t.rows; ++i)
    unpack_(sums + i * stride * sum_bytes_, t.columns, c + (t.c + i * product_.c.row) * out_bytes_, product_.c.col);
}

void Gemm::multiply(const Tile& t, std::int64_t depth, const std::byte* panels_a, const std::byte* panels_b,
                    std::byte* out, std::int64_t stride, bool accumulate) const {
  const std::int64_t rows = micro_.rows, columns = micro_.columns;
  for (std::int64_t j = 0; j < t.columns; j += columns) {
    const std::byte* panel_b = panels_b + j * depth * sum_bytes_;
    const std::int64_t width = std::min(columns, t.columns - j);
    for (std::int64_t i = 0; i < t.rows; i += rows) {
      const std::byte* panel_a = panels_a + i * depth * sum_bytes_;
      const std::int64_t height = std::min(rows, t.rows - i);
      std::byte* block = out + (i * stride + j) * sum_bytes_;
      if (height == rows && width == columns) {
        micro_.run(panel_a, panel_b, depth, block, stride, accumulate);
        continue;
      }
      // At the rim the block is computed aside, and only what belongs to C is moved.
      alignas(64) std::byte aside[kMostTile * sizeof(double)];
      const auto move = [&](bool in) {
        for (std::int64_t r = 0; r < height; ++r) {
          std::byte *mine = aside + r * columns * sum_bytes_, *theirs = block + r * stride * sum_bytes_;
          std::memcpy(in ? mine : theirs, in ? theirs : mine, static_cast<std::size_t>(width * sum_bytes_));
        }
      };
      if (accumulate) {
        std::memset(aside, 0, sizeof aside);
        move(true);
      }
      micro_.run(panel_a, panel_b, depth, aside, columns, accumulate);
      move(false);
    }
  }
}

// A sum of nothing.
void Gemm::fill_zero(std::byte* c) const {
  const Product& p = product_;
  const auto bytes = static_cast<std::size_t>(out_bytes_);
  parallel_for(p.count() * p.m, grain_for(p.n * out_bytes_), [&](std::int64_t begin, std::int64_t end) {
    each_row(begin, end, p.m, [&](std::int64_t matrix, std::int64_t row) {
      std::byte* at_row = c + (p.c.offset(p.batch, matrix) + row * p.c.row) * out_bytes_;
      for (std::int64_t j = 0; j < p.n; ++j) std::memset(at_row + j * p.c.col * out_bytes_, 0, bytes);
    });
  });
}

}  // namespace varve::cpu::plain
