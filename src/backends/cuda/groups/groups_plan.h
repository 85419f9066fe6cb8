// How a group is walked by blocks and threads: axes sorted and joined, elements per thread, rows per block, slices of
// long reductions. By sizes alone, so that sums are the same at every run.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/groups/groups.h"

namespace varve::cuda {

constexpr int kGroupThreads = 256;  // kThreads of groups/groups.cuh

struct GroupOperand {
  DType dtype = f32;
  bool output = false;
  int number = 0;                                  // among the inputs, or the outputs, of its part
  int result = 0;                                  // of the formula: what an output stores
  backend::Reduce reduce = backend::Reduce::none;  // of an output
  Ints strides;                                    // in elements, one per axis; 0 repeats
};

// How a thread's neighbours lie in an operand.
enum class Reach : std::uint8_t {
  scalar,  // one element for the whole space
  splat,   // one element for all neighbours
  vector,  // side by side, fit to be moved at once
  gather,  // anything else
};

enum class Walk : std::uint8_t { flat, rows, columns };  // functions of groups/groups.cuh

struct GroupAxis {
  std::int64_t size = 1;
  bool reduced = false;
};

struct GroupPlan {
  expr::Code code;
  DType compute = f32;
  std::vector<GroupOperand> operands;  // inputs, then outputs
  std::vector<GroupAxis> axes;         // outermost first, none of size 1
  Walk walk = Walk::flat;
  int width = 1;          // elements that a thread moves at once, along the last axis
  bool crossing = false;  // … which may reach into the next row: offsets are computed for each element
  int unroll = 1;
  int lanes = 1;             // threads side by side, of a row or along columns
  std::int64_t units = 1;    // elements by width (flat), or what is reduced for each output (by width when rows)
  std::int64_t columns = 1;  // outputs of a reduction
  std::int64_t slices = 1;   // blocks that share the same outputs
  std::int64_t slice_units = 1;
  std::int64_t tiles = 1;  // blocks by slices
  bool wide = false;       // indices and offsets need 64 bits

  bool dense(const GroupOperand& operand) const;  // in the order of a flat walk
  Reach reach(const GroupOperand& operand) const;
  std::int64_t blocks() const { return tiles * slices; }
  int reduced() const;  // outputs
  std::size_t scratch_bytes() const;
};

// None for a part without points; for an empty reduction, one that writes its neutral value. `vectors`: operands lie at
// multiples of 16 bytes.
std::vector<GroupPlan> plan_group(const GroupPart& part, bool vectors);

}  // namespace varve::cuda
