#include "backends/cpu/tile/worker.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/common/index.h"
#include "backends/cpu/common/scratch.h"

namespace varve::cpu {
namespace {

// Tiles added in the compute type before the sums move on to double: keeps the error of long f32 columns small.
constexpr int kTilesPerFlush = 64;

}  // namespace

Worker::Worker(const Job& job, const Program& program, const void* const* in, void* const* out, std::byte* scratch,
               std::byte* partials)
    : job_(job), program_(program), in_(in), out_(out), partials_(partials) {
  const std::size_t accesses = job.plan.accesses.size();
  const std::size_t tile = cache_aligned(at(job.plan.tile()) * size_of(job.compute));
  Carver carver(scratch);
  places_ = carver.take<std::byte*>(program.places.size());
  offsets_ = carver.take<std::int64_t>(accesses);
  held_ = carver.take<std::byte*>(accesses);
  held_points_ = carver.take<std::size_t>(accesses);
  std::byte* slots = carver.take<std::byte>(at(program.slots) * 8);
  std::byte* registers = carver.take<std::byte>(at(program.registers) * tile);
  if (!job.reductions.empty()) {
    sums_ = carver.take<std::byte>(job.reductions.size() * tile);
    narrow_ = carver.take<std::byte>(tile);
    accumulators_ = carver.take<std::byte>(job.reductions.size() * cache_aligned(at(job.accumulators) * 8));
  }
  std::fill_n(held_, accesses, nullptr);
  bind(registers, slots);
}

void Worker::bind(std::byte* registers, std::byte* slots) {
  const std::size_t tile = cache_aligned(at(job_.plan.tile()) * size_of(job_.compute));
  for (std::size_t i = 0; i < program_.places.size(); ++i) {
    const Place place = program_.places[i];
    const std::size_t index = at(place.index);
    const void* address = nullptr;
    switch (place.kind) {
      case Place::memory:
        address = i < at(job_.inputs) ? in_[i] : out_[i - at(job_.inputs)];
        break;
      case Place::reg:
        address = registers + index * tile;
        break;
      case Place::slot:
        address = slots + index * 8;
        break;
      case Place::constant:
        address = &program_.constants[index];
        break;
      case Place::table:
        address = program_.tables[index].data();
        break;
    }
    places_[i] = static_cast<std::byte*>(const_cast<void*>(address));  // only outputs and registers are written
  }
}

void Worker::move_to(std::int64_t kept, std::int64_t swept) {
  const Plan& plan = job_.plan;
  std::fill_n(offsets_, plan.accesses.size(), 0);
  plan.kept.offset(kept, offsets_);
  plan.swept.offset(swept, offsets_);
  for (std::size_t i = 0; i < plan.accesses.size(); ++i) {
    const void* base = i < at(job_.inputs) ? in_[i] : out_[i - at(job_.inputs)];
    const std::int64_t bytes = offsets_[i] * static_cast<std::int64_t>(size_of(plan.accesses[i].dtype));
    places_[i] = static_cast<std::byte*>(const_cast<void*>(base)) + bytes;
  }
}

bool Worker::still_held(int access, std::size_t points) {
  const std::size_t i = at(access);
  if (held_[i] == places_[i] && points <= held_points_[i]) return true;
  held_[i] = places_[i];
  held_points_[i] = points;
  return false;
}

void Worker::run_tile(std::size_t points) {
  for (const Step& s : program_.per_tile) s.fn(places_[s.a], places_[s.b], places_[s.c], places_[s.out], 1);
  for (const Step& s : program_.tile) {
    if (s.repeats >= 0 && still_held(s.repeats, points)) continue;
    if (s.fn != nullptr) {
      s.fn(places_[s.a], places_[s.b], places_[s.c], places_[s.out], points);
    } else {
      program_.chain(&program_.links[at(s.first_link)], at(s.links), places_, places_[s.a], places_[s.out], points,
                     s.nontemporal);
    }
  }
}

void Worker::run(std::int64_t first_item, std::int64_t last_item) {
  if (first_item >= last_item) return;
  for (const Step& s : program_.once) s.fn(places_[s.a], places_[s.b], places_[s.c], places_[s.out], 1);
  for (const Step& s : program_.fills) {
    s.fn(places_[s.a], places_[s.b], places_[s.c], places_[s.out], at(job_.plan.tile()));
  }
  for (std::int64_t item = first_item; item < last_item; ++item) run_item(item);
}

void Worker::run_item(std::int64_t item) {
  const Plan& plan = job_.plan;
  const std::int64_t kept = item / job_.slices, slice = item % job_.slices;
  const std::int64_t first = plan.swept.size * slice / job_.slices;
  const std::int64_t last = plan.swept.size * (slice + 1) / job_.slices;
  reset_accumulators();
  reset_sums();
  for (std::int64_t swept = first; swept < last; ++swept) {
    move_to(kept, swept);
    const std::int64_t rows = plan.rows_of((plan.axis_reduced() ? swept : kept) % plan.pieces);
    const std::size_t points = at(rows * plan.inner);
    run_tile(points);
    accumulate(rows, points);
  }
  if (job_.reductions.empty()) return;
  flush();
  if (job_.slices > 1)
    keep_partial(item);
  else
    finish(kept);
}

void Worker::reset_accumulators() {
  for (std::size_t i = 0; i < job_.reductions.size(); ++i) {
    std::fill_n(reinterpret_cast<std::int64_t*>(accumulators(i)), job_.accumulators, job_.reductions[i].neutral_bits);
  }
}

void Worker::reset_sums() {
  if (job_.reduce_form != ReduceForm::columns) return;
  for (std::size_t i = 0; i < job_.reductions.size(); ++i) {
    const std::int64_t bits = job_.reductions[i].neutral_tile_bits;
    if (job_.compute == DType::f32) {
      std::fill_n(reinterpret_cast<std::int32_t*>(sums(i)), job_.plan.tile(), static_cast<std::int32_t>(bits));
    } else {
      std::fill_n(reinterpret_cast<std::int64_t*>(sums(i)), job_.plan.tile(), bits);
    }
  }
  pending_ = 0;
}

void Worker::accumulate(std::int64_t rows, std::size_t points) {
  const bool whole_tile = job_.plan.axis_reduced();
  for (std::size_t i = 0; i < job_.reductions.size(); ++i) {
    const Reduction& reduction = job_.reductions[i];
    const std::byte* value = places_[program_.results[at(reduction.output)]];
    if (job_.reduce_form == ReduceForm::columns) {
      reduction.add(sums(i), value, nullptr, sums(i), points);
    } else {
      reduction.segment(value, whole_tile ? 1 : at(rows), whole_tile ? points : at(job_.plan.inner), accumulators(i));
    }
  }
  if (job_.reduce_form != ReduceForm::columns || ++pending_ < kTilesPerFlush) return;
  flush();
  reset_sums();
}

void Worker::flush() {
  if (job_.reduce_form != ReduceForm::columns || pending_ == 0) return;
  const std::size_t columns = at(job_.accumulators);
  for (std::size_t i = 0; i < job_.reductions.size(); ++i) {
    job_.reductions[i].reduce_rows(sums(i), at(job_.plan.tile()) / columns, columns, accumulators(i));
  }
}

void Worker::keep_partial(std::int64_t item) const {
  for (std::size_t i = 0; i < job_.reductions.size(); ++i) {
    std::memcpy(partial(item, i), accumulators(i), at(job_.accumulators) * 8);
  }
}

void Worker::combine(std::int64_t first_kept, std::int64_t last_kept) {
  for (std::int64_t kept = first_kept; kept < last_kept; ++kept) {
    reset_accumulators();
    for (std::size_t i = 0; i < job_.reductions.size(); ++i) {
      for (std::int64_t slice = 0; slice < job_.slices; ++slice) {
        job_.reductions[i].combine(partial(kept * job_.slices + slice, i), 1, at(job_.accumulators), accumulators(i));
      }
    }
    finish(kept);
  }
}

void Worker::finish(std::int64_t kept) {
  const Plan& plan = job_.plan;
  move_to(kept, 0);
  std::int64_t count = job_.accumulators;  // fewer in the last stretch of a kept axis
  if (!plan.axis_reduced()) count = count / plan.rows * plan.rows_of(kept % plan.pieces);
  const DType carried = job_.compute == DType::i64 ? DType::i64 : DType::f64;
  for (std::size_t i = 0; i < job_.reductions.size(); ++i) {
    const Reduction& reduction = job_.reductions[i];
    load_kernel(carried, job_.compute)(accumulators(i), nullptr, nullptr, narrow_, at(count));
    reduction.store(narrow_, reduction.table.data(), nullptr, places_[job_.inputs + reduction.output], at(count));
  }
}

std::byte* Worker::accumulators(std::size_t reduction) const {
  return accumulators_ + reduction * cache_aligned(at(job_.accumulators) * 8);
}
std::byte* Worker::sums(std::size_t reduction) const {
  return sums_ + reduction * cache_aligned(at(job_.plan.tile()) * size_of(job_.compute));
}
std::byte* Worker::partial(std::int64_t item, std::size_t reduction) const {
  return partials_ + (at(item) * job_.reductions.size() + reduction) * at(job_.accumulators) * 8;
}

}  // namespace varve::cpu
