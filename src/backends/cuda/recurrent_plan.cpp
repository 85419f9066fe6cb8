#include "backends/cuda/recurrent_plan.h"

#include <algorithm>
#include <bit>

namespace varve::cuda {
namespace {

constexpr int kWarp = 32, kSchedulers = 4;       // of a multiprocessor
constexpr int kRegistersOfLane = 512;            // of a scheduler's file, for one lane of all its warps
constexpr int kOwnRegisters = 44;                // that a thread needs beside weights and sums
constexpr double kClock = 1.7e9;                 // instructions a second of one scheduler
constexpr double kStep = 450, kExchange = 1300;  // cycles: activations and barriers, and the way from block to block

int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

// A thread's tile is `width` sums for each row; `tiles` cover the block's results, and each sums over `length`.
struct Tiles {
  int count = 0, width = 0, length = 0;
};

Tiles tiles_of(const RecurrentShape& shape, const RecurrentPlan& plan) {
  const int width = static_cast<int>(shape.width);
  if (shape.way == Way::forward) return {plan.units, shape.gates, width};
  return {ceil_div(width, plan.outputs), plan.outputs, shape.gates * plan.units};
}

// Registers first, then shared memory. False: no room.
bool place_weights(const RecurrentShape& shape, const Gpu& gpu, RecurrentPlan& plan) {
  const Tiles tiles = tiles_of(shape, plan);
  plan.threads = ceil_div(tiles.count * plan.lanes, kWarp) * kWarp;
  if (plan.threads > 1024) return false;
  const int words = shape.real_bytes / 4, per_scheduler = ceil_div(plan.threads, kWarp * kSchedulers);
  const int registers = std::min(255, kRegistersOfLane / per_scheduler / 8 * 8);
  const int room = registers - kOwnRegisters * words - tiles.width * plan.rows * words;
  plan.depth = ceil_div(tiles.length, plan.lanes);
  plan.kept_depth = std::min(plan.depth, room / (tiles.width * words));
  if (plan.kept_depth < 1) return false;
  const std::size_t real = static_cast<std::size_t>(shape.real_bytes), rows = static_cast<std::size_t>(plan.rows);
  const auto entries = static_cast<std::size_t>(plan.depth * plan.lanes);
  const auto others = static_cast<std::size_t>((plan.depth - plan.kept_depth) * tiles.width * plan.threads);
  std::size_t operands = entries * rows;
  if (shape.way == Way::forward)
    operands *= 2;
  else if (plan.group == 1)
    operands += rows * static_cast<std::size_t>(shape.width);
  plan.shared = (others + operands) * real;
  return plan.shared <= gpu.shared_bytes;
}

// What one warp does in a step.
struct Work {
  double sums = 0, loads = 0, shuffles = 0;
  double memory = 0;  // cycles of the memory unit, which all schedulers share
};

Work work_of(const RecurrentShape& shape, const RecurrentPlan& plan) {
  const Tiles tiles = tiles_of(shape, plan);
  const int in_a_load = 16 / shape.real_bytes, others = plan.depth - plan.kept_depth;
  const int bytes = std::min(plan.rows, in_a_load) * plan.lanes * shape.real_bytes;
  const int operands = plan.depth * ceil_div(plan.rows, in_a_load), weights = others * ceil_div(tiles.width, in_a_load);
  Work work;
  work.sums = static_cast<double>(plan.depth) * tiles.width * plan.rows * (shape.real_bytes / 4);
  work.loads = operands + weights;
  int sums = tiles.width * plan.rows;
  const int least = shape.way == Way::forward ? shape.gates : 1;
  for (int apart = plan.lanes; apart > 1; apart /= 2) {
    if (sums / 2 >= least) sums /= 2;
    work.shuffles += sums;
  }
  work.memory =
      operands * std::max(1, bytes / 128) + others * tiles.width * shape.real_bytes * kWarp / 128.0 + work.shuffles;
  return work;
}

// A scheduler with one or two warps often has none that is ready.
double busy(int warps) { return warps == 1 ? 0.6 : warps == 2 ? 0.8 : warps == 3 ? 0.88 : 0.92; }

double seconds_of(const RecurrentShape& shape, const RecurrentPlan& plan) {
  const Work work = work_of(shape, plan);
  const int per_scheduler = ceil_div(plan.threads, kWarp * kSchedulers);
  const double issued = per_scheduler * (work.sums + work.loads + 4 * work.shuffles) / busy(per_scheduler);
  const double cycles =
      std::max(issued, work.memory * plan.threads / kWarp) + kStep + (plan.group > 1 ? kExchange + 8 * plan.group : 0);
  const int rounds = ceil_div(ceil_div(shape.batch, plan.rows), plan.groups);
  return cycles / kClock * rounds * static_cast<double>(shape.steps);
}

}  // namespace

std::size_t RecurrentPlan::mail_bytes(const RecurrentShape& shape) const {
  if (group == 1) return 0;
  const auto words = static_cast<std::size_t>(2 * rows) *
                     (shape.way == Way::forward ? static_cast<std::size_t>(shape.width)
                                                : static_cast<std::size_t>(group) * static_cast<std::size_t>(group) *
                                                      static_cast<std::size_t>(units));
  return 8 * (static_cast<std::size_t>(grid()) + static_cast<std::size_t>(groups) * words);
}

std::optional<RecurrentPlan> complete(const RecurrentShape& shape, RecurrentPlan plan, const Gpu& gpu) {
  plan.units = ceil_div(shape.width, plan.group);
  if (ceil_div(shape.width, plan.units) != plan.group || plan.group > gpu.multiprocessors) return std::nullopt;
  if (!place_weights(shape, gpu, plan)) return std::nullopt;
  const int chunks = ceil_div(shape.batch, plan.rows), at_once = gpu.multiprocessors / plan.group;
  plan.groups = ceil_div(chunks, ceil_div(chunks, at_once));
  plan.seconds = seconds_of(shape, plan);
  return plan;
}

std::optional<RecurrentPlan> plan_recurrence(const RecurrentShape& shape, const Gpu& gpu) {
  std::optional<RecurrentPlan> best;
  // Only numbers of 4 bytes fit a word of mail.
  const std::int64_t most = shape.real_bytes == 4 ? std::min<std::int64_t>(gpu.multiprocessors, shape.width) : 1;
  for (int group = 1; group <= most; ++group)
    for (const int rows : {1, 2, 4, 8})
      for (const int lanes : {1, 2, 4, 8, 16, 32})
        for (const int outputs : {1, 2, 4, 8}) {
          if (shape.way == Way::forward && outputs > 1) break;
          const auto plan = complete(shape, {.rows = rows, .group = group, .lanes = lanes, .outputs = outputs}, gpu);
          if (plan && (!best || plan->seconds < best->seconds)) best = plan;
        }
  return best;
}

}  // namespace varve::cuda
