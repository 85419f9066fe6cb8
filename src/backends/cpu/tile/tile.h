// Fused elementwise groups and reductions on the CPU: a formula runs as a list of SIMD loops over tiles that stay in
// L1, so that memory is read and written once however long the formula is. Knows no graph: code, types, extents,
// strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "varve/dtype.h"
#include "varve/expr.h"

namespace varve::cpu {

enum class Reduce : std::uint8_t { none, sum, prod, max, min };

struct Access {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;  // in elements, one per extent; 0 broadcasts
};

struct Group {
  expr::Code code;
  DType compute = DType::f32;           // f32, f64 or i64: the type of the tile registers
  std::vector<std::int64_t> extents;    // the iteration space, outermost first; empty: one element; may contain 0
  std::vector<bool> reduced;            // per extent: summed away; only meaningful for outputs with reduce != none
  std::vector<Access> inputs, outputs;  // a reduced output has stride 0 along the reduced extents
  std::vector<Reduce> reduce;           // per output; `none` outputs are written for every point
};

// Results are the same bits for any number of threads and on every instruction set with fused multiply-add (AVX2,
// AVX-512): work is split in blocks that depend on sizes alone, and sums are taken in a fixed order. An output may be
// the very memory of an input with the same type and strides; any other overlap is undefined.
class TileKernel {
 public:
  explicit TileKernel(const Group& group);  // throws Error when the group makes no sense or cannot be computed
  std::size_t scratch_bytes() const;        // for varve::threads() as it was at construction
  void run(const void* const* in, void* const* out, void* scratch) const;  // allocates nothing, takes no lock

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;  // immutable, so copies share it
};

}  // namespace varve::cpu
