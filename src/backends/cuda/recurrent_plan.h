// How a recurrence is laid out over the GPU's multiprocessors: which has which weights, and which sequences.
#pragma once

#include <optional>

#include "backends/cuda/context.h"

namespace varve::cuda {

enum class Way : std::uint8_t { forward, backward };

struct RecurrentShape {
  Way way = Way::forward;
  int gates = 4;
  std::int64_t steps = 0, batch = 0, width = 0;
  int real_bytes = 4;  // of the numbers that are computed with
};

// GROUP blocks together carry `rows` sequences through all steps, `groups` of them at a time; each block has `units` of
// the units. LANES neighbours of a warp share the sums of one thread's tile, which is as wide as the gates of a unit on
// the way there, and `outputs` states on the way back. See kernels/recurrent.cu.
struct RecurrentPlan {
  int rows = 1, group = 1, groups = 1, units = 1, lanes = 1, outputs = 1;
  int depth = 1, kept_depth = 1;  // weights of a thread, over its width: all, and those in registers
  int threads = 32;
  std::size_t shared = 0;  // bytes
  double seconds = 0;      // roughly

  int grid() const { return group * groups; }
  std::size_t mail_bytes(const RecurrentShape& shape) const;  // for what blocks of a group send each other
};

// The rest of a plan of which rows, group, lanes and outputs are chosen. Nothing when the weights have no room.
std::optional<RecurrentPlan> complete(const RecurrentShape& shape, RecurrentPlan chosen, const Gpu& gpu);
// The fastest, as far as counting instructions tells; nothing when the whole chip has no room.
std::optional<RecurrentPlan> plan_recurrence(const RecurrentShape& shape, const Gpu& gpu);

}  // namespace varve::cuda
