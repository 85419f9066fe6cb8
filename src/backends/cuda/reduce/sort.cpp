// Order along an axis: short rows in one launch, longer ones as sorted tiles that are merged.
#include "backends/cuda/reduce/sort.h"

#include <bit>
#include <limits>

#include "backends/cuda/device/stored_type.h"

namespace varve::cuda {
namespace {

using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kSortThreads = 256;
constexpr std::int64_t kSortedRow = 2048;

std::int64_t sort_blocks(std::int64_t count) { return (count + kSortThreads - 1) / kSortThreads; }

// As the kernels declare it.
struct SortRows {
  const void* x;
  void *values, *places;
  std::int64_t outer, size, inner;
};

class Sort {
 public:
  Sort(const Rows& rows, DType dtype, bool descending) : rows_(rows), count_(rows.outer * rows.size * rows.inner) {
    key_ = size_of(dtype) == 8 ? 8 : 4;
    place_ = rows.size < std::numeric_limits<std::uint32_t>::max() ? 4 : 8;
    const KernelText text{"reduce/sort.cu", defines({{"T", stored_type(dtype)},
                                                     {"KEY", key_ == 8 ? "u64" : "u32"},
                                                     {"PLACE", place_ == 8 ? "u64" : "u32"},
                                                     {"FLOATING", is_floating(dtype) ? "1" : "0"},
                                                     {"WIDE", key_ == 8 ? "double" : "float"},
                                                     {"DESCENDING", descending ? "1" : "0"},
                                                     {"TILE", cat(kSortedRow)}})};
    tiles_ = Function("sort_tiles", text);
    merge_ = Function("merge_runs", text);
    write_ = Function("write_sorted", text);
  }

  // Two copies of keys and places, unless a tile holds whole rows.
  std::size_t scratch_bytes() const { return rows_.size <= kSortedRow ? 0 : 2 * padded() * (key_ + place_); }

  void run(const RunArgs& args) const {
    const SortRows rows{args.in[0], args.out[0], args.out[1], rows_.outer, rows_.size, rows_.inner};
    const bool whole = rows_.size <= kSortedRow;
    const auto width =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(whole ? rows_.size : kSortedRow)));
    const std::int64_t runs = (rows_.size + width - 1) / width * rows_.outer * rows_.inner,
                       together = kSortedRow / width;
    const std::size_t count = padded();
    auto* from = static_cast<std::byte*>(args.scratch);
    std::byte* to = from + count * (key_ + place_);
    tiles_({.grid = (runs + together - 1) / together, .block = kSortThreads}, rows, static_cast<int>(width),
           static_cast<void*>(whole ? nullptr : from), static_cast<void*>(whole ? nullptr : from + count * key_));
    if (whole) return;
    for (std::int64_t merged = width; merged < rows_.size; merged *= 2) {
      merge_({.grid = sort_blocks(count_), .block = kSortThreads}, static_cast<void*>(from),
             static_cast<void*>(from + count * key_), static_cast<void*>(to), static_cast<void*>(to + count * key_),
             count_, rows_.size, merged);
      std::swap(from, to);
    }
    write_({.grid = sort_blocks(count_), .block = kSortThreads}, rows, static_cast<void*>(from + count * key_));
  }

 private:
  // Arrays behind each other begin at multiples of 16 bytes.
  std::size_t padded() const { return (static_cast<std::size_t>(count_) + 3) / 4 * 4; }

  Rows rows_;
  std::int64_t count_;
  std::size_t key_, place_;  // bytes
  Function tiles_, merge_, write_;
};

}  // namespace

Prepared sort(const Task& task) {
  if (task.shape_in(0).numel() == 0) return nothing();
  const Sort sort(Rows(task.shape_in(0), task.attrs.integer("axis")), task.dtype_in(0), task.attrs.flag("descending"));
  return backend::prepared([sort](const RunArgs& args) { sort.run(args); }, sort.scratch_bytes());
}

}  // namespace varve::cuda
