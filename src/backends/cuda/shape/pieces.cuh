// Elements that only move: T, an unsigned integer of 1 to 16 bytes; Index, Offset and Extent, of 32 or 64 bits; UNROLL
// pieces of a thread.
#pragma once

#include "kernels/extents.cuh"

struct alignas(16) Piece16 {
  u64 low, high;
};

#include "generated.cuh"
