// Matrix products of our own, for every type and all strides.
#pragma once

#include <cstddef>

#include "backends/cpu/plain/micro.h"
#include "backends/cpu/product.h"

namespace varve::cpu::plain {

// The type that products of `dtype` are summed in.
constexpr DType sum_type(DType dtype) { return dtype == f64 ? f64 : is_floating(dtype) ? f32 : i64; }

// Prepared once, run many times; `run` allocates nothing and, each with its own scratch, runs side by side with itself.
// The bits of an element depend on its row and column alone, not on lanes and threads.
class Gemm {
 public:
  struct Options {
    DType in = f32, out = f32;
    bool accumulate = false;  // c += a·b, only where `out` is the type of the sums and rows of c are dense
    int lanes = 1;            // that work at the same time
  };
  Gemm(const Product& product, const Options& options);

  std::size_t scratch_bytes() const { return lane_bytes_ * static_cast<std::size_t>(lanes_); }
  void run(const void* a, const void* b, void* c, void* scratch) const;

 private:
  struct Tile;
  Tile tile(std::int64_t number) const;
  void run_tile(const Tile& tile, const std::byte* a, const std::byte* b, std::byte* c, std::byte* scratch) const;
  void multiply(const Tile& tile, std::int64_t depth, const std::byte* panels_a, const std::byte* panels_b,
                std::byte* out, std::int64_t stride, bool accumulate) const;
  void choose_tiles();
  void fill_zero(std::byte* c) const;

  // Panels of `width` rows (or columns), each [k][width], of a block that starts at `from`.
  using Pack = void (*)(const std::byte* from, std::int64_t stride, std::int64_t k_stride, std::int64_t count,
                        std::int64_t k, int width, std::byte* panels);
  using Unpack = void (*)(const std::byte* sums, std::int64_t columns, std::byte* to, std::int64_t stride);

  Product product_;
  Options options_;
  Micro micro_;
  Pack pack_;
  Unpack unpack_ = nullptr;  // null: sums are added up in c itself
  std::int64_t sum_bytes_, in_bytes_, out_bytes_;
  std::int64_t tile_rows_ = 0, tile_columns_ = 0, depth_ = 0;
  std::int64_t row_tiles_ = 0, column_tiles_ = 0;
  int lanes_ = 1;
  std::size_t lane_bytes_ = 0;
};

}  // namespace varve::cpu::plain
