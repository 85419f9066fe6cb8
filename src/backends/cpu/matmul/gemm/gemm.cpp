#include "backends/cpu/matmul/gemm/gemm.h"

#include <algorithm>
#include <utility>

#include <hwy/cache_control.h>

#include "backends/cpu/common/align.h"
#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/scratch.h"

namespace varve::cpu::plain {
namespace {

constexpr std::int64_t kPackedBytes = 384 << 10;  // of B: stays in the second-level cache
constexpr std::int64_t kDepth = 256;              // of a block
constexpr std::int64_t kLeastDepth = 128;         // of one that is cut short
constexpr std::int64_t kLongDepth = 1024;         // of a block with few columns
constexpr std::int64_t kFewColumns = 128;
constexpr std::int64_t kPackedRows = 16;  // of A at a time: they stay in the first-level cache
constexpr std::int64_t kSumRows = 512;    // kept aside while k goes by
constexpr std::int64_t kAhead = 16;       // rows of B that are prefetched

// Part `number` of `count` of [0, length), in whole units.
std::int64_t share(std::int64_t length, std::int64_t unit, std::int64_t number, std::int64_t count) {
  return std::min(length, ceil_div(length, unit) * number / count * unit);
}

template <class T, class C>
void pack(const std::byte* from, std::int64_t stride, std::int64_t k_stride, std::int64_t count, std::int64_t k,
          std::int64_t width, [[maybe_unused]] Micro::Transpose transpose, std::byte* panel) {
  const T* source = reinterpret_cast<const T*>(from);
  C* out = reinterpret_cast<C*>(panel);
  if (count < width) std::fill(out, out + width * k, C{0});
  if constexpr (std::is_same_v<T, C>) {
    if (k_stride == 1) return transpose(source, stride, count, k, width, out);
    if (stride == 1) {
      const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
      for (std::int64_t p = 0; p < k; ++p) {
        // Rows lie too far apart for the processor to see them coming.
        const auto* ahead = reinterpret_cast<const std::byte*>(source + (p + kAhead) * k_stride);
        for (std::size_t line = 0; line < bytes; line += kCacheLine) hwy::Prefetch(ahead + line);
        std::memcpy(out + p * width, source + p * k_stride, bytes);
      }
      return;
    }
  }
  if (k_stride == 1) {
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t p = 0; p < k; ++p) out[p * width + i] = cast_to<C>(source[i * stride + p]);
  } else {
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t i = 0; i < count; ++i) out[p * width + i] = cast_to<C>(source[i * stride + p * k_stride]);
  }
}

// Several panels of R rows each from rows that are neighbours in memory: a line of the cache is read once for all.
template <class T, std::int64_t R>
void pack_neighbours(const std::byte* from, std::int64_t k_stride, std::int64_t panels, std::int64_t k, std::byte* to) {
  const T* source = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (std::int64_t p = 0; p < k; ++p, source += k_stride, out += R)
    for (std::int64_t panel = 0; panel < panels; ++panel)
      std::memcpy(out + panel * R * k, source + panel * R, R * sizeof(T));
}

template <class T, class C>
void unpack(const std::byte* sums, std::int64_t sums_stride, std::int64_t rows, std::int64_t columns, std::byte* to,
            std::int64_t row, std::int64_t column) {
  const C* from = reinterpret_cast<const C*>(sums);
  T* out = reinterpret_cast<T*>(to);
  if (row == 1) {
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t i = 0; i < rows; ++i) out[i + j * column] = cast_to<T>(from[i * sums_stride + j]);
  } else {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) out[i * row + j * column] = cast_to<T>(from[i * sums_stride + j]);
  }
}

// Rows of an operand that are packed soon: their lines come nearer, a few with each block of registers.
class Ahead {
 public:
  enum class Cache : std::uint8_t { first, second };

  Ahead() = default;
  Ahead(Cache cache, const std::byte* from, std::int64_t rows, std::int64_t stride, std::int64_t bytes,
        std::int64_t steps)
      : cache_(cache), from_(from), rows_(rows), stride_(stride), bytes_(bytes), steps_(steps) {}

  void step() {
    if (row_ == rows_) return;
    for (const std::int64_t end = std::min(rows_, rows_ * ++step_ / steps_); row_ < end; ++row_)
      for (std::int64_t at = 0; at < bytes_; at += static_cast<std::int64_t>(kCacheLine)) {
        const std::byte* line = from_ + row_ * stride_ + at;
        if (cache_ == Cache::first)
          __builtin_prefetch(line, 0, 3);
        else
          __builtin_prefetch(line, 0, 2);
      }
  }

 private:
  Cache cache_ = Cache::first;
  const std::byte* from_ = nullptr;
  std::int64_t rows_ = 0, stride_ = 0, bytes_ = 0, steps_ = 1;
  std::int64_t step_ = 0, row_ = 0;
};

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

// Where a worker's work lies: elements to the matrices, rows and columns of the result.
struct Gemm::Part {
  std::int64_t a, b, c;
  Range rows, columns;
};

// One worker at work: its panels and sums in scratch memory.
class Gemm::Worker {
 public:
  Worker(const Gemm& gemm, const Arguments& arguments, std::int64_t number, std::byte* scratch)
      : g_(gemm), arguments_(arguments), number_(number) {
    Carver memory(scratch);
    panels_a_ = memory.take<std::byte>(static_cast<std::size_t>(kPackedRows * g_.depth_ * g_.sum_bytes_));
    panels_b_ = memory.take<std::byte>(static_cast<std::size_t>(g_.block_columns_ * g_.depth_ * g_.sum_bytes_));
    if (g_.aside()) sums_ = memory.take<std::byte>(0);
  }

  void run(const Part& part) {
    const std::int64_t rows_at_once = g_.aside() ? g_.sum_rows_ : part.rows.size();
    const bool one_block = g_.depth_ >= g_.product_.k;
    for (std::int64_t j = part.columns.begin; j < part.columns.end; j += g_.block_columns_)
      for (std::int64_t i = part.rows.begin; i < part.rows.end; i += rows_at_once) {
        const Range rows{i, std::min(i + rows_at_once, part.rows.end)};
        const Range columns{j, std::min(j + g_.block_columns_, part.columns.end)};
        if (!one_block || i == part.rows.begin) packed_from_ = -1;
        run_block(part, rows, columns);
      }
  }

 private:
  struct Block {
    Range rows, columns;
    std::byte* sums;  // the first of them
    std::int64_t stride;
  };

  void run_block(const Part& part, const Range& rows, const Range& columns) {
    const Product& p = g_.product_;
    Block block{rows, columns, sums_, align_up(columns.size(), g_.micro_->lanes)};
    if (!g_.aside()) {
      block.sums =
          static_cast<std::byte*>(arguments_.c) + (part.c + rows.begin * p.c.row + columns.begin) * g_.sum_bytes_;
      block.stride = p.c.row;
    }
    if (p.k == 0) std::memset(block.sums, 0, static_cast<std::size_t>(rows.size() * block.stride * g_.sum_bytes_));
    for (std::int64_t first = 0; first < p.k; first += g_.depth_) {
      const std::int64_t depth = std::min(g_.depth_, p.k - first);
      if (packed_from_ != first) pack_columns(part, columns, first, depth);
      packed_from_ = first;
      multiply(part, block, first, depth);
    }
    finish(part, block);
  }

  std::int64_t panels(const Range& columns) const {
    return ceil_div(ceil_div(columns.size(), g_.micro_->lanes), g_.micro_->most);
  }
  // Vectors before panel `number`: all panels about as wide, none very narrow.
  std::int64_t panel_begin(const Range& columns, std::int64_t number) const {
    return ceil_div(columns.size(), g_.micro_->lanes) * number / panels(columns) * g_.micro_->lanes;
  }

  void pack_columns(const Part& part, const Range& columns, std::int64_t first, std::int64_t depth) {
    const Product& p = g_.product_;
    const auto* b = static_cast<const std::byte*>(arguments_.b);
    for (std::int64_t number = 0; number < panels(columns); ++number) {
      const std::int64_t begin = panel_begin(columns, number), end = panel_begin(columns, number + 1);
      g_.pack_(b + (part.b + (columns.begin + begin) * p.b.col + first * p.b.row) * g_.in_bytes_, p.b.col, p.b.row,
               std::min(end, columns.size()) - begin, depth, end - begin, g_.micro_->transpose,
               panels_b_ + begin * depth * g_.sum_bytes_);
    }
  }

  // Rows of A are read as they lie where neighbours in memory are neighbours in k.
  bool direct(std::int64_t rows) const {
    return rows == g_.micro_->rows && g_.product_.a.col == 1 && g_.options_.in == sum_type(g_.options_.in);
  }

  // What is packed after the rows before `top`.
  Ahead next_rows(const Part& part, const Block& block, std::int64_t top, std::int64_t first) const {
    const Product& p = g_.product_;
    if (top >= block.rows.end) {
      top = block.rows.begin;
      first += g_.depth_;
    }
    if (p.a.row != 1 || first >= p.k) return {};
    return {Ahead::Cache::first,
            static_cast<const std::byte*>(arguments_.a) + (part.a + top + first * p.a.col) * g_.in_bytes_,
            std::min(g_.depth_, p.k - first),
            p.a.col * g_.in_bytes_,
            std::min(kPackedRows, block.rows.end - top) * g_.in_bytes_,
            kPackedRows / g_.micro_->rows * panels(block.columns)};
  }
  Ahead next_columns(const Part& part, const Block& block, std::int64_t first) const {
    const Product& p = g_.product_;
    first += g_.depth_;
    if (p.b.col != 1 || first >= p.k) return {};
    return {
        Ahead::Cache::second,
        static_cast<const std::byte*>(arguments_.b) + (part.b + block.columns.begin + first * p.b.row) * g_.in_bytes_,
        std::min(g_.depth_, p.k - first),
        p.b.row * g_.in_bytes_,
        block.columns.size() * g_.in_bytes_,
        ceil_div(block.rows.size(), g_.micro_->rows) * panels(block.columns)};
  }

  void multiply(const Part& part, const Block& block, std::int64_t first, std::int64_t depth) {
    const Product& p = g_.product_;
    columns_ahead_ = next_columns(part, block, first);
    for (std::int64_t top = block.rows.begin; top < block.rows.end; top += kPackedRows) {
      const std::int64_t bottom = std::min(top + kPackedRows, block.rows.end);
      const std::byte* a =
          static_cast<const std::byte*>(arguments_.a) + (part.a + top * p.a.row + first * p.a.col) * g_.in_bytes_;
      const auto each_group = [&](auto f) {
        for (std::int64_t i = top; i < bottom; i += g_.micro_->rows)
          f(std::min<std::int64_t>(g_.micro_->rows, bottom - i), a + (i - top) * p.a.row * g_.in_bytes_,
            panels_a_ + (i - top) * depth * g_.sum_bytes_, i);
      };
      const std::int64_t whole = p.a.row == 1 && g_.pack_neighbours_ ? (bottom - top) / g_.micro_->rows : 0;
      if (whole > 0) g_.pack_neighbours_(a, p.a.col, whole, depth, panels_a_);
      each_group([&](std::int64_t rows, const std::byte* from, std::byte* panel, std::int64_t row) {
        if (!direct(rows) && row >= top + whole * g_.micro_->rows)
          g_.pack_(from, p.a.row, p.a.col, rows, depth, g_.micro_->rows, g_.micro_->transpose, panel);
      });
      rows_ahead_ = next_rows(part, block, bottom, first);
      each_group([&](std::int64_t rows, const std::byte* from, const std::byte* panel, std::int64_t row) {
        MicroBlock micro{.a = panel,
                         .step = g_.micro_->rows,
                         .k = depth,
                         .stride = block.stride,
                         .accumulate = first > 0 || g_.options_.accumulate,
                         .scale = arguments_.scale};
        if (direct(rows)) {
          micro.a = from;
          micro.row = p.a.row;
          micro.step = 1;
        }
        multiply_row(block, micro, row, rows);
      });
    }
  }

  // Some rows with all panels of B.
  void multiply_row(const Block& block, MicroBlock& micro, std::int64_t row, std::int64_t rows) {
    for (std::int64_t number = 0; number < panels(block.columns); ++number) {
      const std::int64_t begin = panel_begin(block.columns, number), end = panel_begin(block.columns, number + 1);
      const std::int64_t columns = std::min(end, block.columns.size()) - begin;
      rows_ahead_.step();
      columns_ahead_.step();
      if (!arguments_.beside.empty() && g_.depth_ >= g_.product_.k)
        fetch_beside(row, rows, block.columns.begin + begin, columns);
      micro.b = panels_b_ + begin * micro.k * g_.sum_bytes_;
      micro.c = block.sums + ((row - block.rows.begin) * block.stride + begin) * g_.sum_bytes_;
      micro.next = micro.accumulate ? next_of(block, micro, row, number) : nullptr;
      const Micro::Run kernel = g_.micro_->run(rows, end - begin);
      if (g_.aside() || (rows == g_.micro_->rows && columns == end - begin))
        kernel(micro);
      else
        run_at_rim(kernel, micro, rows, columns, end - begin);
    }
  }

  // Where the block of registers after panel `number` of these rows begins; null where none is whole.
  const std::byte* next_of(const Block& block, const MicroBlock& micro, std::int64_t row, std::int64_t number) const {
    if (number + 1 < panels(block.columns))
      return static_cast<const std::byte*>(micro.c) +
             (panel_begin(block.columns, number + 1) - panel_begin(block.columns, number)) * g_.sum_bytes_;
    const std::int64_t below = row + g_.micro_->rows;
    if (below + g_.micro_->rows > block.rows.end) return nullptr;
    return block.sums + (below - block.rows.begin) * block.stride * g_.sum_bytes_;
  }

  void fetch_beside(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) const {
    for (const void* matrix : arguments_.beside)
      for (std::int64_t r = row; r < row + rows; ++r) {
        const std::byte* first = static_cast<const std::byte*>(matrix) + (r * g_.product_.n + column) * g_.sum_bytes_;
        for (std::int64_t line = 0; line < columns * g_.sum_bytes_; line += static_cast<std::int64_t>(kCacheLine))
          hwy::Prefetch(first + line);
      }
  }

  // The block is computed apart, and only what belongs to C is moved.
  void run_at_rim(Micro::Run kernel, const MicroBlock& at, std::int64_t rows, std::int64_t columns,
                  std::int64_t width) {
    alignas(64) std::byte apart[kMostMicroRows * kMostMicroColumns * sizeof(double)];
    MicroBlock micro = at;
    micro.c = apart;
    micro.stride = width;
    micro.next = nullptr;
    const auto move = [&](bool in) {
      for (std::int64_t r = 0; r < rows; ++r) {
        std::byte* mine = apart + r * width * g_.sum_bytes_;
        std::byte* theirs = static_cast<std::byte*>(at.c) + r * at.stride * g_.sum_bytes_;
        std::memcpy(in ? mine : theirs, in ? theirs : mine, static_cast<std::size_t>(columns * g_.sum_bytes_));
      }
    };
    if (at.accumulate) {
      std::memset(apart, 0, sizeof apart);
      move(true);
    }
    kernel(micro);
    move(false);
  }

  void finish(const Part& part, const Block& block) {
    const Product& p = g_.product_;
    const Range &rows = block.rows, &columns = block.columns;
    if (arguments_.take)
      arguments_.take(arguments_.context,
                      {block.sums, block.stride, rows.begin, rows.size(), columns.begin, columns.size(), number_});
    else if (g_.unpack_)
      g_.unpack_(block.sums, block.stride, rows.size(), columns.size(),
                 static_cast<std::byte*>(arguments_.c) +
                     (part.c + rows.begin * p.c.row + columns.begin * p.c.col) * g_.out_bytes_,
                 p.c.row, p.c.col);
  }

  const Gemm& g_;
  const Arguments& arguments_;
  std::int64_t number_;
  std::byte *panels_a_ = nullptr, *panels_b_ = nullptr, *sums_ = nullptr;
  std::int64_t packed_from_ = -1;  // the k whose columns are packed
  Ahead rows_ahead_, columns_ahead_;
};

Gemm::Gemm(const Product& product, const Options& options)
    : product_(product),
      options_(options),
      micro_(&micro_kernel(sum_type(options.in))),
      pack_(with_sums(
          options.in,
          []<class T, class C>(std::type_identity<T>, std::type_identity<C>) -> Pack { return &pack<T, C>; })),
      sum_bytes_(element_bytes(sum_type(options.in))),
      in_bytes_(element_bytes(options.in)),
      out_bytes_(element_bytes(options.out)) {
  const bool many = micro_->rows == kMostMicroRows;
  if (options.in == f32) pack_neighbours_ = many ? &pack_neighbours<float, kMostMicroRows> : &pack_neighbours<float, 4>;
  if (options.in == f64)
    pack_neighbours_ = many ? &pack_neighbours<double, kMostMicroRows> : &pack_neighbours<double, 4>;
  swap_operands();
  if (!options.pieces && (options.out != sum_type(options.in) || product_.c.col != 1))
    unpack_ = with_sums(options.out, []<class T, class C>(std::type_identity<T>, std::type_identity<C>) -> Unpack {
      return &unpack<T, C>;
    });
  if (product_.empty()) return;
  choose_blocks();
  const auto bytes = [&](std::int64_t count) { return cache_aligned(static_cast<std::size_t>(count * sum_bytes_)); };
  worker_bytes_ = bytes(kPackedRows * depth_) + bytes(block_columns_ * depth_) +
                  (aside() ? bytes(align_up(sum_rows_, micro_->rows) * block_columns_) : 0);
}

// cᵀ = bᵀ·aᵀ where B lies as [N,K] and is the larger one: its rows are then read as they lie, and only the small
// operand has to be transposed.
void Gemm::swap_operands() {
  Product& p = product_;
  const bool possible = !options_.pieces && !options_.accumulate && options_.in == sum_type(options_.in);
  if (!possible || p.b.row != 1 || p.b.col == 1 || p.a.col != 1 || p.n < p.m) return;
  swapped_ = true;
  std::swap(p.m, p.n);
  std::swap(p.a, p.b);
  std::swap(p.a.row, p.a.col);
  std::swap(p.b.row, p.b.col);
  std::swap(p.c.row, p.c.col);
}

void Gemm::choose_blocks() {
  const Product& p = product_;
  // By sizes alone: where k is cut decides the bits. Rows of A that are packed should meet many columns.
  const std::int64_t cut = std::clamp(kPackedBytes / (p.n * sum_bytes_), kLeastDepth, kDepth);
  const std::int64_t most = p.n <= kFewColumns ? kLongDepth : p.a.col == 1 ? kDepth : cut;
  depth_ = std::max<std::int64_t>(ceil_div(p.k, std::max<std::int64_t>(ceil_div(p.k, most), 1)), 1);
  // The longer side is shared out, so that what every worker packs for itself is the shorter.
  by_rows_ = p.m >= (options_.pieces ? std::min<std::int64_t>(p.n, options_.workers * kPackedRows) : p.n);
  const std::int64_t unit = by_rows_ ? micro_->rows : micro_->lanes, side = by_rows_ ? p.m : p.n;
  parts_ = std::clamp<std::int64_t>(ceil_div(options_.workers, p.count()), 1, ceil_div(side, unit));
  workers_ = static_cast<int>(std::clamp<std::int64_t>(p.count() * parts_, 1, options_.workers));
  const std::int64_t panel = micro_->lanes * micro_->most;
  const std::int64_t columns = by_rows_ ? p.n : align_up(ceil_div(p.n, parts_), micro_->lanes);
  const std::int64_t most_columns = std::max(kPackedBytes / (depth_ * sum_bytes_) / panel, std::int64_t{1}) * panel;
  block_columns_ = align_up(ceil_div(columns, ceil_div(columns, most_columns)), micro_->lanes);
  sum_rows_ = std::min(p.m, depth_ >= p.k ? kPackedRows : kSumRows);
}

Gemm::Part Gemm::part(std::int64_t number) const {
  const Product& p = product_;
  const std::int64_t matrix = number / parts_, n = number % parts_;
  Part part{p.a.offset(p.batch, matrix), p.b.offset(p.batch, matrix), p.c.offset(p.batch, matrix), {0, p.m}, {0, p.n}};
  if (by_rows_)
    part.rows = {share(p.m, micro_->rows, n, parts_), share(p.m, micro_->rows, n + 1, parts_)};
  else
    part.columns = {share(p.n, micro_->lanes, n, parts_), share(p.n, micro_->lanes, n + 1, parts_)};
  return part;
}

std::vector<Gemm::PieceShape> Gemm::piece_shapes() const {
  std::vector<PieceShape> shapes;
  const auto add = [&](std::int64_t rows, std::int64_t columns) {
    if (rows == 0 || columns == 0) return;
    for (const PieceShape& known : shapes)
      if (known.rows == rows && known.columns == columns) return;
    shapes.push_back({rows, columns, align_up(columns, micro_->lanes)});
  };
  if (product_.empty()) return shapes;
  for (std::int64_t number = 0; number < parts_; ++number) {
    const Part p = part(number);
    const std::int64_t rows = p.rows.size(), columns = p.columns.size();
    for (const std::int64_t r : {std::min(rows, sum_rows_), rows % sum_rows_})
      for (const std::int64_t c : {std::min(columns, block_columns_), columns % block_columns_}) add(r, c);
  }
  return shapes;
}

void Gemm::run(Arguments arguments, void* scratch) const {
  if (product_.empty()) return;
  if (swapped_) std::swap(arguments.a, arguments.b);
  auto* memory = static_cast<std::byte*>(scratch);
  if (product_.k == 0 && !options_.pieces)
    return options_.accumulate ? void() : fill_zero(static_cast<std::byte*>(arguments.c));
  const std::int64_t parts = product_.count() * parts_;
  parallel_for(workers_, 1, [&](std::int64_t number, std::int64_t) {
    Worker worker(*this, arguments, number, memory + number * static_cast<std::int64_t>(worker_bytes_));
    for (std::int64_t i = number; i < parts; i += workers_) worker.run(part(i));
  });
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
