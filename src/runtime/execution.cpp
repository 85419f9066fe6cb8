#include "runtime/execution.h"

#include <algorithm>
#include <cstring>

#include "base/neighbours.h"
#include "base/ranks.h"
#include "base/threads.h"
#include "runtime/residence.h"

namespace varve::runtime {

using compiler::Place;

namespace {

std::vector<std::shared_ptr<const compiler::Plan>> bodies_of(const compiler::PlanStep& step) {
  if (step.loop) return {step.loop->body};
  if (step.choice) return {step.choice->then, step.choice->otherwise};
  if (step.repeat) return {step.repeat->condition, step.repeat->body};
  return {};
}

}  // namespace

Execution::Execution(std::shared_ptr<const compiler::Plan> plan, bool own_arena, bool own_errors)
    : plan_(std::move(plan)) {
  const std::size_t steps = plan_->steps.size();
  in_.resize(steps);
  out_.resize(steps);
  scratch_.assign(steps, nullptr);
  bodies_.resize(steps);
  input_patches_.resize(plan_->inputs.size());
  output_patches_.resize(plan_->outputs.size());
  copy_from_.assign(plan_->copies.size(), nullptr);
  copy_to_.assign(plan_->copies.size(), nullptr);
  auto register_patch = [&](const Place& place, void** slot) {
    std::vector<Patch>& patches = place.kind == Place::Kind::arena ? arena_patches_
                                  : place.kind == Place::Kind::input
                                      ? input_patches_[static_cast<std::size_t>(place.index)]
                                      : output_patches_[static_cast<std::size_t>(place.index)];
    patches.push_back({slot, place.offset});
  };
  for (std::size_t s = 0; s < steps; ++s) {
    const compiler::PlanStep& step = plan_->steps[s];
    in_[s].assign(step.in.size(), nullptr);
    out_[s].assign(step.out.size(), nullptr);
    for (std::size_t i = 0; i < step.in.size(); ++i) register_patch(step.in[i], &in_[s][i]);
    for (std::size_t o = 0; o < step.out.size(); ++o) register_patch(step.out[o], &out_[s][o]);
    writes_input_.push_back(
        std::any_of(step.out.begin(), step.out.end(), [](const Place& out) { return out.kind == Place::Kind::input; }));
    register_patch(step.scratch, &scratch_[s]);
    for (const auto& body : bodies_of(step)) bodies_[s].push_back(std::make_unique<Execution>(body, false, false));
    const bool runs = step.has_kernel() && plan_->executes;
    kernels_.push_back(runs ? step.prepare(step.in_ports, step.out_ports).kernel : nullptr);
  }
  for (std::size_t c = 0; c < plan_->copies.size(); ++c) {
    register_patch(plan_->copies[c].from, &copy_from_[c]);
    register_patch(plan_->copies[c].to, &copy_to_[c]);
  }
  if (own_arena && plan_->arena_bytes) {
    arena_ = new_storage(plan_->arena_bytes, plan_->device);
    bind_arena(address(*arena_, plan_->device));
  }
  if (own_errors && plan_->device) plan_->device->share(own_errors_);
}

Execution::~Execution() = default;

void Execution::patch(const std::vector<Patch>& patches, void* base) {
  for (const Patch& patch : patches) *patch.slot = static_cast<std::byte*>(base) + patch.offset;
}

void Execution::bind_arena(void* arena) { patch(arena_patches_, arena); }
void Execution::bind_input(int index, void* data) { patch(input_patches_[static_cast<std::size_t>(index)], data); }
void Execution::bind_output(int index, void* data) { patch(output_patches_[static_cast<std::size_t>(index)], data); }

void Execution::run_step(std::size_t s) {
  const compiler::PlanStep& step = plan_->steps[s];
  if (step.loop) return run_loop(s);
  if (step.choice) return run_choice(s);
  if (step.repeat) return run_repeat(s);
  kernels_[s]->run({in_[s].data(), out_[s].data(), scratch_[s], errors_});
}

void Execution::run() {
  if (!plan_->executes) return;
  if (threads() > 1 && !plan_->device) share_processors();
  if (plan_->exchanges.any)
    run_among_ranks();
  else
    run_steps();
}

// By the device's own engine; the host's carries what they need to find each other.
void join_on(backend::Device& device) {
  if (!device.engine().empty()) return;
  const RankPlace& place = rank_place();
  backend::Communication& ranks = backend::Communication::get();
  device.join({.rank = place.rank,
               .size = place.size,
               .local_rank = place.local_rank,
               .local_size = place.local_size,
               .host = ranks.host(),
               .first =
                   [](void* data, std::size_t bytes) {
                     backend::Communication::get().run(
                         [=](backend::Communicator& all) { all.broadcast(data, bytes, 0); });
                   },
               .failure = [] { return backend::Communication::get().failure(); },
               .fail = [](const std::string& why) { backend::Communication::get().fail(why); }});
}

// The others are about to run the same program, on the same kind of device.
backend::Communication::Ticket Execution::announce() {
  backend::Communication& ranks = backend::Communication::get();
  if (const std::string failure = ranks.failure(); !failure.empty()) throw Error(failure);
  if (!plan_->exchanges.hash) return 0;
  return ranks.check_same(plan_->exchanges.hash + (plan_->device ? 2 : 0));
}

// Whatever happens, no message is on its way when this returns: it may read what others compute in next. (On a device
// it may be: who reads waits for it.)
void Execution::run_among_ranks() {
  backend::Communication& ranks = backend::Communication::get();
  const backend::Communication::Ticket same = announce();
  try {
    if (plan_->device) {
      ranks.wait(same);  // its engine would wait for ranks that do something else
      join_on(*plan_->device);
    }
    run_steps();
  } catch (const std::exception& error) {
    ranks.fail(error.what());
    ranks.drain();
    throw;
  }
  if (plan_->device || !errors_->set()) return;
  ranks.fail(errors_->text());
  ranks.drain();
}

void Execution::run_steps() {
  const FlushDenormals flush;
  const bool stops = !plan_->device;
  for (steps_run_ = 0; steps_run_ < kernels_.size(); ++steps_run_) {
    if (stops && writes_input_[steps_run_] && errors_->set()) return;
    run_step(steps_run_);
  }
  if (stops && errors_->set()) return;
  run_copies();
  ++steps_run_;
}

bool Execution::writes(int input, std::size_t steps) const {
  const auto is_it = [&](const Place& place) { return place.kind == Place::Kind::input && place.index == input; };
  for (std::size_t s = 0; s < std::min(steps, plan_->steps.size()); ++s)
    if (std::any_of(plan_->steps[s].out.begin(), plan_->steps[s].out.end(), is_it)) return true;
  if (steps <= plan_->steps.size()) return false;
  return std::any_of(plan_->copies.begin(), plan_->copies.end(),
                     [&](const compiler::FinalCopy& copy) { return is_it(copy.to); });
}

void Execution::copy(void* to, const void* from, std::size_t bytes) {
  if (plan_->device)
    plan_->device->copy(to, from, bytes);
  else if (bytes)
    std::memcpy(to, from, bytes);
}

void Execution::run_copies() {
  for (std::size_t c = 0; c < copy_from_.size(); ++c) copy(copy_to_[c], copy_from_[c], plan_->copies[c].bytes);
}

void Execution::replay(backend::Recording& recording) {
  if (plan_->exchanges.any) announce();
  recording.replay();
}

void Execution::tell_ranks(const std::string& error) const {
  if (plan_->exchanges.any) backend::Communication::get().fail(error);
}

void Execution::time_on_device(std::vector<double>& seconds) {
  std::vector<std::function<void()>> pieces;
  for (std::size_t s = 0; s < kernels_.size(); ++s) pieces.push_back([this, s] { run_step(s); });
  const std::vector<double> times = plan_->device->time(pieces);
  for (std::size_t s = 0; s < kernels_.size(); ++s) seconds[s] += times[s];
  run_copies();
}

void Execution::run_timed(std::vector<double>& seconds) {
  using Clock = std::chrono::steady_clock;
  seconds.resize(kernels_.size(), 0.0);
  if (plan_->device) return time_on_device(seconds);
  const FlushDenormals flush;
  for (std::size_t s = 0; s < kernels_.size() && plan_->executes; ++s) {
    const auto begin = Clock::now();
    run_step(s);
    seconds[s] += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  run_copies();
}

}  // namespace varve::runtime
