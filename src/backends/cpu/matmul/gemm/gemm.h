// Plain matrix products, for every type and all strides.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/matmul/gemm/micro.h"
#include "backends/cpu/matmul/product.h"

namespace varve::cpu::plain {

// The type that products of `dtype` are summed in.
constexpr DType sum_type(DType dtype) { return dtype == f64 ? f64 : is_floating(dtype) ? f32 : i64; }

// Prepared once, run many times; `run` allocates nothing and, each with its own scratch, runs side by side with itself.
// The bits of an element depend on its row and column alone, not on workers and threads.
class Gemm {
 public:
  struct Options {
    DType in = f32, out = f32;
    bool accumulate = false;  // c += a·b, only where `out` is the type of the sums and rows of c are dense
    bool pieces = false;      // c is not written: finished sums are handed out
    int workers = 1;          // that work at the same time
  };
  Gemm(const Product& product, const Options& options);

  // Sums of some rows and columns of one matrix, complete and still in the cache.
  struct Piece {
    const void* sums;
    std::int64_t stride;  // between rows
    std::int64_t row, rows, column, columns;
    std::int64_t worker;
  };
  // Of all pieces that a run hands out, each once.
  struct PieceShape {
    std::int64_t rows, columns, stride;
  };
  std::vector<PieceShape> piece_shapes() const;

  std::size_t scratch_bytes() const { return worker_bytes_ * static_cast<std::size_t>(workers_); }
  int workers() const { return workers_; }
  void run(const void* a, const void* b, void* c, void* scratch) const { run({.a = a, .b = b, .c = c}, scratch); }
  // c += scale·a·b
  void run_scaled(const void* a, const void* b, const void* scale, void* c, void* scratch) const {
    run({.a = a, .b = b, .c = c, .scale = scale}, scratch);
  }
  // take(piece) for every part of the result, on the worker that has computed it. `beside` are matrices like the result
  // that it will read: their parts are prefetched while the products are computed.
  template <class F>
  void run_pieces(const void* a, const void* b, std::span<const void* const> beside, void* scratch,
                  const F& take) const {
    run({.a = a,
         .b = b,
         .beside = beside,
         .take = [](const void* context, const Piece& piece) { (*static_cast<const F*>(context))(piece); },
         .context = std::addressof(take)},
        scratch);
  }

 private:
  struct Arguments {
    const void *a = nullptr, *b = nullptr;
    void* c = nullptr;
    const void* scale = nullptr;
    std::span<const void* const> beside = {};
    void (*take)(const void* context, const Piece& piece) = nullptr;
    const void* context = nullptr;
  };
  struct Range {
    std::int64_t begin, end;
    std::int64_t size() const { return end - begin; }
  };
  struct Part;
  class Worker;

  void swap_operands();
  void choose_blocks();
  bool aside() const { return unpack_ || options_.pieces; }  // sums do not go straight to c
  Part part(std::int64_t number) const;
  void run(Arguments arguments, void* scratch) const;
  void fill_zero(std::byte* c) const;

  // Panels of `width` rows (or columns), each [k][width], of a block that starts at `from`.
  using Pack = void (*)(const std::byte* from, std::int64_t stride, std::int64_t k_stride, std::int64_t count,
                        std::int64_t k, std::int64_t width, Micro::Transpose transpose, std::byte* panel);
  using Unpack = void (*)(const std::byte* sums, std::int64_t sums_stride, std::int64_t rows, std::int64_t columns,
                          std::byte* to, std::int64_t row, std::int64_t column);

  Product product_;
  Options options_;
  const Micro* micro_;
  Pack pack_;
  void (*pack_neighbours_)(const std::byte* from, std::int64_t k_stride, std::int64_t panels, std::int64_t k,
                           std::byte* to) = nullptr;  // null: the type has to be converted
  Unpack unpack_ = nullptr;                           // null: sums are accumulated in c itself
  std::int64_t sum_bytes_, in_bytes_, out_bytes_;
  std::int64_t depth_ = 0, block_columns_ = 0, sum_rows_ = 0;
  std::int64_t parts_ = 1;  // of one matrix, by rows or columns
  bool by_rows_ = true;
  bool swapped_ = false;  // a and b have changed places
  int workers_ = 1;
  std::size_t worker_bytes_ = 0;
};

}  // namespace varve::cpu::plain
