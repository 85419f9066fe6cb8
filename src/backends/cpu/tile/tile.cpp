#include "backends/cpu/tile/tile.h"

#include <hwy/cache_control.h>
#include <omp.h>

#include <algorithm>
#include <optional>

#include "backends/cpu/common/cache.h"
#include "backends/cpu/common/index.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/tile/program.h"
#include "backends/cpu/tile/reduction.h"
#include "backends/cpu/tile/worker.h"
#include "base/threads.h"

namespace varve::cpu {
namespace {

constexpr std::int64_t kRegisterBytes = 24 << 10;  // of L1, shared by all tile registers
constexpr std::int64_t kPointsPerThread = 16384;   // below two of these the calling thread is faster alone

// As large as all registers fit into L1: long loops, few calls.
std::int64_t tile_points(const Group& group) {
  const std::int64_t size = static_cast<std::int64_t>(size_of(group.compute));
  const std::int64_t fitting = kRegisterBytes / size / estimate_registers(group) / 64 * 64;
  return std::clamp<std::int64_t>(fitting, 256, 4096 / size);
}

// A result that outgrows the last cache is written past it. In place it is not: the lines are there already.
bool outgrows_cache(const Group& group) {
  std::int64_t points = 1, bytes = 0;
  for (const std::int64_t extent : group.extents) points *= extent;
  for (std::size_t o = 0; o < group.outputs.size(); ++o) {
    if (group.reduce[o] == Reduce::none) bytes += points * static_cast<std::int64_t>(size_of(group.outputs[o].dtype));
  }
  return bytes > last_level_cache();
}

// A reduction over no points: its identity, written by a kernel without inputs.
struct EmptyReduction {
  int output;
  TileKernel fill;
};

std::vector<EmptyReduction> fills_of(const Group& group) {
  std::vector<EmptyReduction> fills;
  for (std::size_t o = 0; o < group.outputs.size(); ++o) {
    if (group.reduce[o] == Reduce::none) continue;
    Group fill;
    fill.compute = group.compute;
    fill.outputs = {{group.outputs[o].dtype, {}}};
    fill.reduce = {Reduce::none};
    for (std::size_t d = 0; d < group.extents.size(); ++d) {
      if (group.reduced[d]) continue;
      fill.extents.push_back(group.extents[d]);
      fill.outputs[0].strides.push_back(group.outputs[o].strides[d]);
    }
    fill.reduced.assign(fill.extents.size(), false);
    fill.code.instrs = {{.prim = expr::Prim::constant, .value = identity<double>(group.reduce[o])}};
    fill.code.outputs = {0};
    fills.push_back({static_cast<int>(o), TileKernel(fill)});
  }
  return fills;
}

}  // namespace

struct TileKernel::Impl {
  Job job;
  Program program;
  std::optional<Program> nontemporal_program;
  std::vector<EmptyReduction> fills;  // when there are no points
  bool empty = false;
  int threads = 1;
  std::size_t worker_bytes = 0;

  bool aliases(const void* const* in, void* const* out) const;
  void run(const void* const* in, void* const* out, std::byte* scratch) const;
};

TileKernel::TileKernel(const Group& group) {
  auto impl = std::make_shared<Impl>();
  Plan plan = make_plan(group, tile_points(group));
  if (plan.empty) {
    impl->empty = true;
    impl->fills = fills_of(group);
    impl_ = std::move(impl);
    return;
  }
  impl->job = make_job(group, std::move(plan));
  const Job& job = impl->job;
  impl->program = compile(group, job.plan, false);
  impl->worker_bytes = job.worker_bytes(impl->program);
  if (outgrows_cache(group)) {
    impl->nontemporal_program = compile(group, job.plan, true);
    impl->worker_bytes = std::max(impl->worker_bytes, job.worker_bytes(*impl->nontemporal_program));
  }
  const std::int64_t points = job.plan.kept.size * job.plan.swept.size * job.plan.tile();
  impl->threads =
      static_cast<int>(std::clamp<std::int64_t>(std::min(points / kPointsPerThread, job.items()), 1, varve::threads()));
  impl_ = std::move(impl);
}

std::size_t TileKernel::scratch_bytes() const {
  if (impl_->empty) {
    std::size_t most = 0;
    for (const EmptyReduction& fill : impl_->fills) most = std::max(most, fill.fill.scratch_bytes());
    return most;
  }
  return kCacheLine + impl_->job.partial_bytes() + at(impl_->threads) * impl_->worker_bytes;
}

void TileKernel::run(const void* const* in, void* const* out, void* scratch) const {
  for (const EmptyReduction& fill : impl_->fills) fill.fill.run(nullptr, out + fill.output, scratch);
  if (!impl_->empty) impl_->run(in, out, align(scratch));
}

bool TileKernel::Impl::aliases(const void* const* in, void* const* out) const {
  const std::size_t inputs = at(job.inputs), outputs = job.plan.accesses.size() - inputs;
  for (std::size_t o = 0; o < outputs; ++o) {
    if (std::find(in, in + inputs, out[o]) != in + inputs) return true;
  }
  return false;
}

void TileKernel::Impl::run(const void* const* in, void* const* out, std::byte* scratch) const {
  const bool nontemporal = nontemporal_program && !aliases(in, out);
  const Program& chosen = nontemporal ? *nontemporal_program : program;
  std::byte* partials = scratch;
  std::byte* workers = scratch + job.partial_bytes();
  const int limit = std::min(threads, varve::threads());
  const TeamMode mode(limit);
#pragma omp parallel num_threads(limit) if (limit > 1)
  {
    const TeamMode::Here here(mode);
    const std::int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    Worker worker(job, chosen, in, out, workers + at(me) * worker_bytes, partials);
    worker.run(job.items() * me / team, job.items() * (me + 1) / team);
    if (nontemporal) hwy::FlushStream();  // non-temporal stores are not ordered with anything else
    if (job.slices > 1) {
#pragma omp barrier
      worker.combine(job.plan.kept.size * me / team, job.plan.kept.size * (me + 1) / team);
    }
  }
}

}  // namespace varve::cpu
