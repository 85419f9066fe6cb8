// One thread's share of a tile kernel: its registers and accumulators in scratch memory, and the walk over tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/tile/plan.h"
#include "backends/cpu/tile/program.h"

namespace varve::cpu {

// How the points of a tile meet the accumulators of a reduced output.
enum class ReduceForm : std::uint8_t {
  none,      // nothing is reduced
  segments,  // innermost extent reduced: each accumulator takes a run of points, a row of the tile or all of it
  columns,   // innermost extent kept: each point has its own accumulator, or shares it with its column
};

// One reduced output.
struct Reduction {
  int output = 0;
  SegmentFn segment = nullptr;
  KernelFn add = nullptr;  // two tiles of the compute type
  ReduceRowsFn reduce_rows = nullptr, combine = nullptr;
  KernelFn store = nullptr;            // from the compute type to the output
  std::vector<std::int64_t> table;     // offset of each accumulator's element; empty when they are neighbours
  std::int64_t neutral_bits = 0;       // the identity in the accumulator's type (double or i64)
  std::int64_t neutral_tile_bits = 0;  // and in the compute type
};

// Everything that the threads share.
struct Job {
  DType compute = DType::f32;
  int inputs = 0;
  Plan plan;
  ReduceForm reduce_form = ReduceForm::none;
  std::vector<Reduction> reductions;
  std::int64_t accumulators = 0;  // of each reduction, for one kept tile
  std::int64_t slices = 1;        // that the swept space is cut into

  std::int64_t items() const { return plan.kept.size * slices; }
  std::size_t partial_bytes() const;  // of the accumulators of all items; 0 when there is one slice
  std::size_t worker_bytes(const Program& program) const;
};

Job make_job(const Group& group, Plan plan);

class Worker {
 public:
  Worker(const Job& job, const Program& program, const void* const* in, void* const* out, std::byte* scratch,
         std::byte* partials);

  void run(std::int64_t first_item, std::int64_t last_item);      // items: kept tiles × slices
  void combine(std::int64_t first_kept, std::int64_t last_kept);  // the partial results of several slices

 private:
  void bind(std::byte* registers, std::byte* slots);
  void move_to(std::int64_t kept, std::int64_t swept);
  void run_item(std::int64_t item);
  void run_tile(std::size_t points);
  bool still_held(int access, std::size_t points);
  void reset_accumulators();
  void reset_sums();
  void accumulate(std::int64_t rows, std::size_t points);
  void flush();
  void keep_partial(std::int64_t item) const;
  void finish(std::int64_t kept);

  std::byte* accumulators(std::size_t reduction) const;
  std::byte* sums(std::size_t reduction) const;
  std::byte* partial(std::int64_t item, std::size_t reduction) const;

  const Job& job_;
  const Program& program_;
  const void* const* in_;
  void* const* out_;
  std::byte* partials_;
  std::byte** places_ = nullptr;
  std::int64_t* offsets_ = nullptr;
  std::byte** held_ = nullptr;          // per access: the address whose values a register still holds,
  std::size_t* held_points_ = nullptr;  // and how many of them
  std::byte* accumulators_ = nullptr;
  std::byte* sums_ = nullptr;    // tiles of the compute type that collect several tiles before a flush
  std::byte* narrow_ = nullptr;  // one tile, for results before they are stored
  int pending_ = 0;              // tiles in sums_ since the last flush
};

}  // namespace varve::cpu
