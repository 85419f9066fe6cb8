// The SIMD loops that a tile program is made of: one function per primitive, type and operand form, looked up when a
// program is compiled. All lookups return the version for this machine's instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/tile/tile.h"

namespace varve::cpu {

// out[i] = f(a[i], b[i], c[i]) for i < n. Out may be one of the operands; nothing past n is read or written.
using KernelFn = void (*)(const void* a, const void* b, const void* c, void* out, std::size_t n);

// Which of the last two operands is a single value: c = tile ∘ tile, tile ∘ scalar, scalar ∘ tile.
enum class Form : std::uint8_t { vv, vs, sv };

// What a peephole may put in place of several primitives. Each gives the same bits as the primitives would.
enum class Fused : std::uint8_t { none, sigmoid };

KernelFn prim_kernel(DType compute, expr::Prim prim, Form form);  // nullptr: no such loop
KernelFn fused_kernel(DType compute, Fused op);                   // nullptr: no such loop
KernelFn splat_kernel(DType compute);                             // out[i] = a[0]

// Memory to register and back. Gather and scatter take a table of element offsets (std::int64_t) as `b`; repeat takes
// {length, stride} there and spreads each of n / length elements, `stride` apart, over a run of that length.
KernelFn load_kernel(DType from, DType compute);
KernelFn gather_kernel(DType from, DType compute);
KernelFn repeat_kernel(DType from, DType compute);
KernelFn store_kernel(DType compute, DType to);
KernelFn scatter_kernel(DType compute, DType to);
KernelFn nontemporal_kernel(
    DType compute);  // non-temporal store, past the caches, for outputs nobody will find there anyway

// Sums are carried in double (i64 for i64), so that blocks can be combined without loss.
// acc[s] ∘= the reduction of segment s of the tile, each `length` long.
using SegmentFn = void (*)(const void* tile, std::size_t segments, std::size_t length, void* acc);
// acc[c] ∘= rows[0][c], rows[1][c], … in that order.
using ReduceRowsFn = void (*)(const void* tile, std::size_t rows, std::size_t columns, void* acc);

SegmentFn segment_kernel(DType compute, Reduce op);
ReduceRowsFn reduce_rows_kernel(DType compute, Reduce op);  // rows of the compute type
ReduceRowsFn combine_kernel(DType compute, Reduce op);      // rows of the accumulator type
expr::Prim prim_of(Reduce op);                              // the primitive that combines two values

}  // namespace varve::cpu
