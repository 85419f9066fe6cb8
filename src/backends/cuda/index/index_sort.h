// Positions sorted by the row that their index names, on the GPU: stable, so that sums over rows repeat.
#pragma once

#include "backends/cuda/index/index.h"

namespace varve::cuda {

class IndexSort {
 public:
  // What the keys are made of. Plain: indices of shape [count] name rows of a tensor [outer, size, …], once for each of
  // outer; keys are the rows' numbers. Flat: indices of shape [outer, count, inner] name elements of a tensor [outer,
  // size, inner]; keys are those elements' places.
  struct Keys {
    DType dtype;                 // of the indices
    std::int64_t positions = 0;  // how many keys: outer · count, · inner
    std::int64_t rows = 0;       // how many there can be
    std::int64_t size, count, inner = 1;
    bool flat = false;
    int text = 0;  // of the note for an index out of range
    // Places are given as position / period · far + position % period · near; period 0: as positions.
    std::uint32_t period = 0, far = 0, near = 0;
  };
  // Why it would not sort those, or nothing.
  static std::string refusal(std::int64_t positions, std::int64_t rows);

  explicit IndexSort(const Keys& keys);

  // Ascending by (key, position); indices out of range come last, with the key `rows`.
  struct Sorted {
    const std::uint32_t *keys, *places;
  };
  std::size_t scratch_bytes() const { return total_; }
  // Also sets `cleared_bytes` at `cleared` to zero, on the way.
  Sorted operator()(const void* indices, void* scratch, volatile std::uint64_t* errors, void* cleared,
                    std::int64_t cleared_bytes) const;

 private:
  struct Source;
  Sorted by_rank(const Source& source, void* scratch, void* cleared, std::int64_t cleared_bytes) const;
  Sorted by_counting(const Source& source, void* scratch, void* cleared, std::int64_t cleared_bytes) const;

  Keys keys_;
  bool few_;               // few enough to compare all with all
  int passes_, bits_;      // digits of a key, and bits of a digit
  std::int64_t bins_ = 0;  // values of a digit
  std::int64_t tile_ = 0, tiles_ = 0;
  std::size_t pair_ = 0, counts_at_ = 0, totals_at_ = 0, total_ = 0;  // bytes
  Function rank_, count_first_, count_next_, add_tiles_, place_;
};

}  // namespace varve::cuda
