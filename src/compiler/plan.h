// What the compiler hands to the runtime: prepared kernels in order, and where every operand lies.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace varve::compiler {

constexpr std::size_t kAlign = 256;  // of buffers in an arena: what libraries of GPUs like best

struct Place {
  enum class Kind : std::uint8_t { arena, input, output } kind = Kind::arena;
  int index = 0;            // of the input or output
  std::int64_t offset = 0;  // in bytes
};

struct Plan;

// A loop over the leading axis: `body` runs once a step over slices of the operands.
struct Loop {
  std::shared_ptr<const Plan> body;
  int carries = 0, xs = 0, outs = 0;  // operands: carries, xs, then what the body captured; results: carries, outs
  std::int64_t steps = 0;
  bool reverse = false;
  std::vector<std::int64_t> carry_at;  // bytes into the scratch: two buffers for each carry
  std::int64_t arena_at = 0;           // the body's arena in the scratch
};

// One of two programs over the same operands, as the first operand, a truth value, says. Their arena is the scratch.
struct Choice {
  std::shared_ptr<const Plan> then, otherwise;
};

// `body` runs for as long as `condition` holds. Operands: carries, then what both captured; results: last carries, the
// number of steps, and of those carries that are kept one row for each step.
struct Repeat {
  std::shared_ptr<const Plan> condition, body;
  int carries = 0;
  std::vector<int> kept;
  std::int64_t max_steps = -1;
  std::string too_long;                // what a loop that would go on after max_steps notes
  std::vector<std::int64_t> carry_at;  // bytes into the scratch: a second buffer for each carry, beside its result
  std::int64_t predicate_at = 0;
  std::int64_t arena_at = 0;  // of condition and body, which take turns
};

struct PlanStep {
  std::string kernel;             // who runs it
  std::string op, shape, origin;  // for the profiler
  std::vector<Place> in, out;
  Place scratch;
  std::size_t scratch_bytes = 0;
  std::vector<backend::Port> in_ports, out_ports;
  backend::Prepare prepare;  // makes one kernel for each execution
  Cost cost;
  std::shared_ptr<const Loop> loop;  // one of these set: no kernel, programs of its own
  std::shared_ptr<const Choice> choice;
  std::shared_ptr<const Repeat> repeat;
  bool has_kernel() const { return !loop && !choice && !repeat; }
};

struct FinalCopy {
  Place from, to;
  std::size_t bytes = 0;
};

// What a program says to other ranks.
struct Exchanges {
  bool any = false;
  std::uint64_t hash = 0;  // of the collectives, in order: the same on every rank; 0: none
};

struct Plan {
  std::vector<PlanStep> steps;
  std::vector<FinalCopy> copies;      // state that could not be updated in place
  std::vector<backend::Port> inputs;  // as the caller must bind them
  std::vector<TensorType> outputs;
  std::vector<std::pair<int, int>> updates;  // (input, output) as in the graph
  std::vector<bool> written;                 // per input: replaced in its own buffer
  std::vector<bool> returned;                // per output: has a buffer of its own (updates have none)
  std::size_t arena_bytes = 0;
  std::string text, graphviz;  // the graph as compiled
  std::string explain;         // who claimed what, who refused and why
  backend::Choices choices;
  Exchanges exchanges;
  bool executes = true;
  bool decides = false;  // what runs depends on values: a choice or a loop that ends by a value, at any depth
  backend::Device* device = nullptr;  // where kernels run and operands lie; null: the processor
};

}  // namespace varve::compiler
