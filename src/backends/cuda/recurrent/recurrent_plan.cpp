#include "backends/cuda/recurrent/recurrent_plan.h"

#include <algorithm>

namespace varve::cuda {
namespace {

constexpr int kWarp = 32, kSchedulers = 4;  // of a multiprocessor
constexpr int kRegistersOfLane = 512;       // of a scheduler's file, for one lane of all its warps
constexpr int kOwnRegisters = 44;           // that a thread needs beside weights and sums
constexpr int kRowRegisters = 14;           // for every further sequence of which it has a unit
constexpr double kClock = 1.7e9;            // instructions a second of one scheduler
constexpr double kStepCycles = 300,
                 kExchange = 1300;  // cycles: latencies and barriers, and the way from block to block
constexpr double kCell = 150;       // instructions of a unit's gates, loads and stores
constexpr double kTensor = 6;       // cycles of a product by tensor cores

int int_ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

// What one block does, by its threads and warps.
struct Block {
  int threads = 0, depth = 0;
  int weight_words = 0;                   // registers of one weight, or of a fragment: of all of a tile's width
  int sum_words = 0;                      // registers of the sums
  int own = 1;                            // units of sequences that a thread has
  std::int64_t others = 0, operands = 0;  // bytes of shared memory: for each weight not in registers, and beside that
  double sums = 0, products = 0, shuffles = 0;   // instructions of a warp: ordinary, by tensor cores
  double operand_loads = 0, operand_cycles = 0;  // and the memory unit's cycles for them
};

Block ordinary_block(const RecurrentShape& shape, const RecurrentPlan& plan) {
  const bool forward = shape.pass == Pass::forward;
  const int width = static_cast<int>(shape.width), words = shape.real_bytes / 4;
  const int tiles = forward ? plan.units : int_ceil_div(width, plan.outputs),
            wide = forward ? shape.gates : plan.outputs;
  Block block;
  block.threads = int_ceil_div(tiles * plan.lanes, kWarp) * kWarp;
  block.depth = int_ceil_div(forward ? width : shape.gates * plan.units, plan.lanes);
  block.weight_words = wide * words;
  block.sum_words = wide * plan.rows * words;
  block.own = forward ? std::max(1, plan.rows / plan.lanes) : int_ceil_div(plan.units * plan.rows, block.threads);
  block.others = std::int64_t{wide} * shape.real_bytes * block.threads;
  block.operands = std::int64_t{block.depth} * plan.lanes * plan.rows * shape.real_bytes * (forward ? 2 : 1);
  if (!forward && plan.group == 1) block.operands += shape.width * plan.rows * shape.real_bytes;
  block.sums = static_cast<double>(block.depth) * block.sum_words;
  const int in_a_load = 16 / shape.real_bytes, bytes = std::min(plan.rows, in_a_load) * plan.lanes * shape.real_bytes;
  block.operand_loads = block.depth * int_ceil_div(plan.rows, in_a_load);
  block.operand_cycles = block.operand_loads * std::max(1, bytes / 128);
  int left = wide * plan.rows;
  const int least = forward ? shape.gates : 1;
  for (int apart = plan.lanes; apart > 1; apart /= 2) {
    if (left / 2 >= least) left /= 2;
    block.shuffles += left;
  }
  return block;
}

// Constants are those of recurrent_*_tensor_core.cuh.
Block tensor_block(const RecurrentShape& shape, const RecurrentPlan& plan) {
  const bool forward = shape.pass == Pass::forward;
  const int width = static_cast<int>(shape.width), tile = shape.tensor == Tensor::tf32 ? 8 : 16;
  const int operand_bytes = 32 / tile, columns = std::max(plan.rows, 8), column_tiles = columns / 8;
  const int strips = forward ? int_ceil_div(shape.gates, 2) : plan.strips;
  const int all = int_ceil_div(forward ? width : shape.gates * plan.units, tile);
  const int tiles = plan.split == 1 ? all : int_ceil_div(all, 2 * plan.split) * 2;
  const int pitch = (int_ceil_div(tiles * plan.split, 2) | 1) * 2 * tile,
            lane_rows = plan.rows == 4 ? 1 : plan.rows / 4;
  Block block;
  block.threads =
      (forward ? int_ceil_div(plan.units, 8) : int_ceil_div(int_ceil_div(width, 16), strips)) * plan.split * kWarp;
  block.depth = tiles * strips;
  block.weight_words = 4;
  block.sum_words = column_tiles * strips * 4 * plan.chains;
  block.own = forward ? (plan.split == 2 ? std::max(1, lane_rows / 2) : lane_rows)
                      : int_ceil_div(plan.units * plan.rows, block.threads);
  block.others = std::int64_t{16} * block.threads;
  block.operands = std::int64_t{columns} * pitch * operand_bytes * (forward ? 2 : 1);
  if (forward)
    block.operands += std::int64_t{plan.split - 1} * int_ceil_div(lane_rows, 2) * shape.gates * 4 * block.threads;
  else if (plan.group == 1)
    block.operands += shape.width * plan.rows * 4 * plan.split;
  block.products = block.depth * column_tiles;
  block.operand_loads = int_ceil_div(tiles, 2) * column_tiles;
  block.operand_cycles = block.operand_loads * (plan.rows == 4 ? 2 : 4);
  return block;
}

Block block_of(const RecurrentShape& shape, const RecurrentPlan& plan) {
  return plan.tensor ? tensor_block(shape, plan) : ordinary_block(shape, plan);
}

// A scheduler with one or two warps often has none that is ready.
double busy(int warps) { return warps == 1 ? 0.6 : warps == 2 ? 0.8 : warps == 3 ? 0.88 : 0.92; }

double seconds_of(const RecurrentShape& shape, const RecurrentPlan& plan, const Block& block) {
  const int warps = block.threads / kWarp, per_scheduler = int_ceil_div(warps, kSchedulers);
  const int others = plan.depth - plan.kept_depth;
  const double other_loads = others * int_ceil_div(block.weight_words, 4), other_cycles = others * block.weight_words;
  const double issued =
      per_scheduler *
      (block.sums + block.products + block.operand_loads + other_loads + 4 * block.shuffles + kCell * block.own) /
      busy(per_scheduler);
  const double memory = warps * (block.operand_cycles + other_cycles + block.shuffles);
  const double cycles = std::max({issued, memory, per_scheduler * block.products * kTensor}) + kStepCycles +
                        (plan.group > 1 ? kExchange + 8 * plan.group : 0);
  const int rounds = int_ceil_div(int_ceil_div(shape.batch, plan.rows), plan.groups);
  return cycles / kClock * rounds * static_cast<double>(shape.steps);
}

}  // namespace

std::size_t RecurrentPlan::mail_bytes(const RecurrentShape& shape) const {
  if (group == 1) return 0;
  const std::int64_t words =
      2 * rows * (shape.pass == Pass::forward ? shape.width : std::int64_t{group} * group * units);
  return static_cast<std::size_t>(8 * (grid() + groups * words));
}

std::optional<RecurrentPlan> complete(const RecurrentShape& shape, RecurrentPlan plan, const Gpu& gpu) {
  plan.units = int_ceil_div(shape.width, plan.group);
  if (int_ceil_div(shape.width, plan.units) != plan.group || plan.group > gpu.multiprocessors) return std::nullopt;
  plan.chains = 1;
  Block block = block_of(shape, plan);
  const int per_scheduler = int_ceil_div(block.threads, kWarp * kSchedulers);
  // Products that depend on each other are as far apart as there are others to do: eight or so hide all of it.
  if (plan.tensor && per_scheduler * block.sum_words / 4 < 6) plan.chains = 2;
  block = block_of(shape, plan);
  if (block.threads > 1024) return std::nullopt;
  // Registers first, then shared memory.
  const int registers = std::min(255, kRegistersOfLane / per_scheduler / 8 * 8), words = shape.real_bytes / 4;
  const int room = registers - (kOwnRegisters + kRowRegisters * (block.own - 1)) * words - block.sum_words;
  plan.threads = block.threads;
  plan.depth = block.depth;
  plan.kept_depth = std::min(plan.depth, room / block.weight_words);
  if (plan.kept_depth < 1) return std::nullopt;
  plan.shared = static_cast<std::size_t>((plan.depth - plan.kept_depth) * block.others + block.operands);
  if (plan.shared > gpu.shared_bytes) return std::nullopt;
  const int chunks = int_ceil_div(shape.batch, plan.rows), at_once = gpu.multiprocessors / plan.group;
  plan.groups = int_ceil_div(chunks, int_ceil_div(chunks, at_once));
  plan.seconds = seconds_of(shape, plan, block);
  return plan;
}

std::optional<RecurrentPlan> plan_recurrence(const RecurrentShape& shape, const Gpu& gpu) {
  std::optional<RecurrentPlan> best;
  const auto consider = [&](const RecurrentPlan& chosen) {
    const auto plan = complete(shape, chosen, gpu);
    if (plan && (!best || plan->seconds < best->seconds)) best = plan;
  };
  const bool back = shape.pass == Pass::backward;
  const std::vector<int> outputs = back ? std::vector{1, 2, 4, 8} : std::vector{1};
  const std::vector<int> strips = back ? std::vector{1, 2, 4} : std::vector{1};
  // Only numbers of 4 bytes fit a word of mail.
  const std::int64_t most = shape.real_bytes == 4 ? std::min<std::int64_t>(gpu.multiprocessors, shape.width) : 1;
  for (int group = 1; group <= most; ++group) {
    for (const int rows : {1, 2, 4, 8})
      for (const int lanes : {1, 2, 4, 8, 16, 32})
        for (const int wide : outputs) consider({.rows = rows, .group = group, .lanes = lanes, .outputs = wide});
    if (shape.tensor == Tensor::none) continue;
    for (const int rows : {4, 8, 16})
      for (const int split : {1, 2}) {
        if (back && group > 1 && split > 1) break;  // blocks exchange whole sums
        for (const int high : strips)
          consider({.tensor = true, .rows = rows, .group = group, .split = split, .strips = high});
      }
  }
  return best;
}

}  // namespace varve::cuda
