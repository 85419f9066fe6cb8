// How a recurrence is laid out over the GPU's multiprocessors: which has which weights, and which sequences.
#pragma once

#include <optional>

#include "backends/cuda/device/context.h"

namespace varve::cuda {

enum class Pass : std::uint8_t { forward, backward };
// What tensor cores may take for operands; none: products are in full precision, by ordinary arithmetic.
enum class TensorCores : std::uint8_t { none, tf32, bf16, f16 };

struct RecurrentShape {
  Pass pass = Pass::forward;
  int gates = 4;
  std::int64_t steps = 0, batch = 0, width = 0;
  int real_bytes = 4;  // of the numbers that are computed with
  TensorCores tensor = TensorCores::none;
};

// `group` blocks together carry `rows` sequences through all steps, `groups` of them at a time; each block has `units`
// of the units. See recurrent/recurrent.cuh.
struct RecurrentPlan {
  bool tensor = false;  // by tensor cores
  int rows = 1, group = 1, groups = 1, units = 1;
  // Ordinary arithmetic: `lanes` neighbours of a warp share the sums of a tile, which is as wide as the gates of a unit
  // in the forward pass and `outputs` states in the backward pass.
  int lanes = 1, outputs = 1;
  // Tensor cores: a sum is split over so many warps; in the backward pass a warp has so many strips of 16 states.
  // Chains are sums that take turns.
  int split = 1, strips = 1, chains = 1;
  int depth = 1, kept_depth = 1;  // weights of a thread, by its tile's width or by fragments: all, those in registers
  int threads = 32;
  std::size_t shared = 0;  // bytes
  double seconds = 0;      // roughly

  int grid() const { return group * groups; }
  std::size_t mail_bytes(const RecurrentShape& shape) const;  // for what blocks of a group send each other
};

// The rest of a plan of which tensor, rows, group, lanes, outputs, split and strips are chosen. Nothing when the
// weights have no room.
std::optional<RecurrentPlan> complete(const RecurrentShape& shape, RecurrentPlan chosen, const Gpu& gpu);
// The fastest, as far as counting instructions tells; nothing when the whole chip has no room.
std::optional<RecurrentPlan> plan_recurrence(const RecurrentShape& shape, const Gpu& gpu);

}  // namespace varve::cuda
