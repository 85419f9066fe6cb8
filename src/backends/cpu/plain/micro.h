// The innermost step of a matrix product: a block of C small enough for registers.
#pragma once

#include <cstdint>

#include "varve/dtype.h"

namespace varve::cpu::plain {

inline constexpr int kMicroRows = 4;

// c = a·b, or c += scale·a·b. The products of one element are added in order of k whatever the instruction set, so
// neighbours and blocks do not change a bit of it.
struct MicroBlock {
  const void* a = nullptr;  // element (i, p) at a[i·row + p·step]: packed as [k][4], or rows as they lie
  std::int64_t row = 1, step = kMicroRows;
  const void* b = nullptr;  // packed as [k][columns]
  std::int64_t k = 0;
  void* c = nullptr;  // row-major with `stride` between rows
  std::int64_t stride = 0;
  bool accumulate = false;
  const void* scale = nullptr;  // null: 1; only where it accumulates
};

struct Micro {
  using Run = void (*)(const MicroBlock&);
  // to [k][width] = the transpose of `columns` ≤ width rows of k elements each, `stride` apart.
  using Turn = void (*)(const void* from, std::int64_t stride, std::int64_t columns, std::int64_t k, std::int64_t width,
                        void* to);

  int lanes = 0;             // columns of one vector
  int most = 0;              // vectors that a block may be wide
  const Run* run = nullptr;  // for blocks of 1, 2, … most vectors
  Turn turn = nullptr;
};
inline constexpr int kMostMicroColumns = 6 * 16;  // of a block, any instruction set and type

const Micro& micro_kernel(DType compute);  // f32, f64 or i64, which wraps

}  // namespace varve::cpu::plain
