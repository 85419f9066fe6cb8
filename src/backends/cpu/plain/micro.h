// The innermost step of a matrix product: a block of C small enough for registers, from packed panels.
#pragma once

#include <cstdint>

#include "varve/dtype.h"

namespace varve::cpu::plain {

inline constexpr int kMostTile = 6 * 32;  // elements of the largest block, any instruction set

// A is packed as [k][rows], B as [k][columns]; c is row-major with `stride` between rows. The products of one element
// are added in order of k whatever the instruction set, so neighbours and blocks do not change a bit of it.
struct Micro {
  int rows = 0, columns = 0;
  void (*run)(const void* a, const void* b, std::int64_t k, void* c, std::int64_t stride, bool accumulate) = nullptr;
};

Micro micro_kernel(DType compute);  // f32, f64 or i64, which wraps

}  // namespace varve::cpu::plain
