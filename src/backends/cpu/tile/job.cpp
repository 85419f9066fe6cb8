#include <algorithm>
#include <bit>

#include "backends/cpu/common/index.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/tile/reduction.h"
#include "backends/cpu/tile/worker.h"

namespace varve::cpu {
namespace {

constexpr std::int64_t kItemsWanted = 64;       // enough for as many threads to share
constexpr std::int64_t kPointsPerItem = 16384;  // below this a partial result costs more than it spreads

Reduction make_reduction(const Group& group, const Job& job, int output) {
  const Reduce op = group.reduce[at(output)];
  const DType compute = group.compute, to = group.outputs[at(output)].dtype;
  Reduction reduction;
  reduction.output = output;
  reduction.segment = segment_kernel(compute, op);
  reduction.add = prim_kernel(compute, prim_of(op), Form::vv);
  reduction.reduce_rows = reduce_rows_kernel(compute, op);
  reduction.combine = combine_kernel(compute, op);
  const double neutral = identity<double>(op);
  if (compute == DType::i64)
    reduction.neutral_bits = reduction.neutral_tile_bits = identity<std::int64_t>(op);
  else
    reduction.neutral_bits = reduction.neutral_tile_bits = std::bit_cast<std::int64_t>(neutral);
  if (compute == DType::f32) reduction.neutral_tile_bits = std::bit_cast<std::int32_t>(static_cast<float>(neutral));

  const std::vector<std::int64_t> points = job.plan.table(job.plan.accesses[group.inputs.size() + at(output)]);
  const std::int64_t step =
      job.reduce_form == ReduceForm::segments ? job.plan.inner : 1;  // a segment's points coincide
  bool neighbours = true;
  for (std::int64_t i = 0; i < job.accumulators; ++i) {
    reduction.table.push_back(points[at(i * step)]);
    neighbours = neighbours && reduction.table.back() == i;
  }
  if (neighbours) reduction.table.clear();
  reduction.store = neighbours ? store_kernel(compute, to) : scatter_kernel(compute, to);
  return reduction;
}

}  // namespace

Job make_job(const Group& group, Plan plan) {
  Job job;
  job.compute = group.compute;
  job.inputs = static_cast<int>(group.inputs.size());
  job.plan = std::move(plan);
  const Plan& p = job.plan;
  const bool reduces =
      std::any_of(group.reduce.begin(), group.reduce.end(), [](Reduce r) { return r != Reduce::none; });
  if (!reduces) return job;
  job.reduce_form = p.inner_reduced ? ReduceForm::segments : ReduceForm::columns;
  const std::int64_t rows = p.axis_reduced() ? 1 : p.rows;
  job.accumulators = job.reduce_form == ReduceForm::segments ? rows : rows * p.inner;
  for (int o = 0; o < static_cast<int>(group.outputs.size()); ++o) {
    if (group.reduce[at(o)] != Reduce::none) job.reductions.push_back(make_reduction(group, job, o));
  }
  // By sizes alone, never by threads: the sums must not depend on them.
  const std::int64_t worthwhile = p.swept.size * p.tile() / kPointsPerItem;
  const std::int64_t wanted = (kItemsWanted + p.kept.size - 1) / p.kept.size;
  job.slices = std::clamp<std::int64_t>(std::min(wanted, worthwhile), 1, p.swept.size);
  return job;
}

std::size_t Job::partial_bytes() const {
  return slices == 1 ? 0 : cache_aligned(at(items()) * reductions.size() * at(accumulators) * 8);
}

std::size_t Job::worker_bytes(const Program& program) const {
  const std::size_t tile = cache_aligned(at(plan.tile()) * size_of(compute));
  const std::size_t accesses = plan.accesses.size();
  std::size_t bytes = cache_aligned(program.places.size() * sizeof(void*)) + 3 * cache_aligned(accesses * 8) +
                      cache_aligned(at(program.slots) * 8) + at(program.registers) * tile;
  if (!reductions.empty()) bytes += reductions.size() * (tile + cache_aligned(at(accumulators) * 8)) + tile;
  return bytes;
}

}  // namespace varve::cpu
