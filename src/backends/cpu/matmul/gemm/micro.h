// The innermost step of a matrix product: a block of C small enough for registers.
#pragma once

#include <cstdint>

#include "varve/dtype.h"

namespace varve::cpu::plain {

// c = a·b, or c += scale·a·b. The products of one element are added in order of k whatever the instruction set, so
// neighbours and blocks do not change a bit of it.
struct MicroBlock {
  const void* a = nullptr;  // element (i, p) at a[i·row + p·step]: packed as [k][rows], or as they lie
  std::int64_t row = 1, step = 0;
  const void* b = nullptr;  // packed as [k][columns]
  std::int64_t k = 0;
  void* c = nullptr;  // row-major with `stride` between rows
  std::int64_t stride = 0;
  const void* next = nullptr;  // the c of the block after this one, prefetched while this one is computed; null: none
  bool accumulate = false;
  const void* scale = nullptr;  // null: 1; only where it accumulates
};

struct Micro {
  using Run = void (*)(const MicroBlock&);
  // to [k][width] = the transpose of `columns` ≤ width rows of k elements each, `stride` apart.
  using Transpose = void (*)(const void* from, std::int64_t stride, std::int64_t columns, std::int64_t k,
                             std::int64_t width, void* to);

  int rows = 0;               // of a block
  int lanes = 0;              // columns of one vector
  int most = 0;               // vectors that a block may be wide
  const Run* runs = nullptr;  // for blocks of 1, 2, … most vectors, then for half the rows
  Transpose transpose = nullptr;

  Run run(std::int64_t some, std::int64_t columns) const {
    return runs[columns / lanes - 1 + (2 * some <= rows ? most : 0)];
  }
};
// Of a block, any instruction set and type.
inline constexpr int kMostMicroRows = 8, kMostMicroColumns = 3 * 16;

const Micro& micro_kernel(DType compute);  // f32, f64 or i64, which wraps

}  // namespace varve::cpu::plain
