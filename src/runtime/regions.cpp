// Steps that run programs of their own: loops and branches.
#include <algorithm>
#include <cstring>

#include "runtime/execution.h"
#include "varve/interrupt.h"

namespace varve::runtime {

Execution& Execution::body(std::size_t step, std::size_t which, std::int64_t arena_at) {
  Execution& body = *bodies_[step][which];
  body.share_errors(errors_);
  body.bind_arena(static_cast<std::byte*>(scratch_[step]) + arena_at);
  return body;
}

// Operands: carries, xs, captured; results: carries, outs. Carries alternate between two buffers; the last one is
// copied out.
void Execution::run_loop(std::size_t s) {
  const compiler::PlanStep& step = plan_->steps[s];
  const compiler::Loop& loop = *step.loop;
  Execution& body = this->body(s, 0, loop.arena_at);
  auto* scratch = static_cast<std::byte*>(scratch_[s]);
  const auto carries = static_cast<std::size_t>(loop.carries), xs = static_cast<std::size_t>(loop.xs);
  for (std::size_t i = carries + xs; i < in_[s].size(); ++i) body.bind_input(static_cast<int>(i), in_[s][i]);
  for (std::int64_t t = 0; t < loop.steps; ++t) {
    const std::int64_t at = loop.reverse ? loop.steps - 1 - t : t;
    for (std::size_t c = 0; c < carries; ++c) {
      void* from = t == 0 ? in_[s][c] : scratch + loop.carry_at[2 * c + static_cast<std::size_t>((t + 1) % 2)];
      body.bind_input(static_cast<int>(c), from);
      body.bind_output(static_cast<int>(c), scratch + loop.carry_at[2 * c + static_cast<std::size_t>(t % 2)]);
    }
    for (std::size_t x = carries; x < carries + xs; ++x) {
      const auto slice = static_cast<std::int64_t>(loop.body->inputs[x].type.bytes());
      body.bind_input(static_cast<int>(x), static_cast<std::byte*>(in_[s][x]) + at * slice);
    }
    for (std::size_t o = carries; o < out_[s].size(); ++o) {
      const auto slice = static_cast<std::int64_t>(loop.body->outputs[o].bytes());
      body.bind_output(static_cast<int>(o), static_cast<std::byte*>(out_[s][o]) + at * slice);
    }
    body.run();
  }
  for (std::size_t c = 0; c < carries; ++c) {
    const void* last =
        loop.steps == 0 ? in_[s][c] : scratch + loop.carry_at[2 * c + static_cast<std::size_t>((loop.steps + 1) % 2)];
    copy(out_[s][c], last, loop.body->outputs[c].bytes());
  }
}

// Operands: the predicate, then those of the branches.
void Execution::run_choice(std::size_t s) {
  const auto branch = [this, s](std::size_t which) {
    Execution& taken = body(s, which, 0);
    for (std::size_t i = 1; i < in_[s].size(); ++i) taken.bind_input(static_cast<int>(i) - 1, in_[s][i]);
    for (std::size_t o = 0; o < out_[s].size(); ++o) taken.bind_output(static_cast<int>(o), out_[s][o]);
    taken.run();
  };
  if (plan_->device)
    plan_->device->choose(
        in_[s][0], [&] { branch(0); }, [&] { branch(1); });
  else
    branch(*static_cast<const bool*>(in_[s][0]) ? 0 : 1);
}

void Execution::run_repeat(std::size_t s) {
  if (plan_->device)
    repeat_on_device(s);
  else
    repeat_here(s);
}

// Carries alternate between the result's buffer and another one; the first ones are read where they are.
void Execution::repeat_here(std::size_t s) {
  constexpr std::int64_t kStepsPerLook = 1024;  // for somebody who wants to end it
  const compiler::Repeat& repeat = *plan_->steps[s].repeat;
  Execution &condition = body(s, 0, repeat.arena_at), &work = body(s, 1, repeat.arena_at);
  auto* scratch = static_cast<std::byte*>(scratch_[s]);
  const auto carries = static_cast<std::size_t>(repeat.carries);
  const bool& goes_on = *reinterpret_cast<const bool*>(scratch + repeat.predicate_at);
  auto& steps = *static_cast<std::int64_t*>(out_[s][carries]);
  condition.bind_output(0, scratch + repeat.predicate_at);
  for (std::size_t i = carries; i < in_[s].size(); ++i)
    for (Execution* reader : {&condition, &work}) reader->bind_input(static_cast<int>(i), in_[s][i]);
  std::vector<void*> now(in_[s].begin(), in_[s].begin() + static_cast<std::ptrdiff_t>(carries));
  for (steps = 0;; ++steps) {
    for (std::size_t c = 0; c < carries; ++c)
      for (Execution* reader : {&condition, &work}) reader->bind_input(static_cast<int>(c), now[c]);
    condition.run();
    if (errors_->set() || !goes_on) break;
    if (steps == repeat.max_steps) return errors_->note(repeat.too_long, steps);
    if (steps % kStepsPerLook == kStepsPerLook - 1) throw_if_interrupted();
    for (std::size_t k = 0; k < repeat.kept.size(); ++k) {
      const auto c = static_cast<std::size_t>(repeat.kept[k]);
      const std::size_t bytes = work.plan().outputs[c].bytes();
      copy(static_cast<std::byte*>(out_[s][carries + 1 + k]) + static_cast<std::size_t>(steps) * bytes, now[c], bytes);
    }
    for (std::size_t c = 0; c < carries; ++c) {
      now[c] = steps % 2 == 0 ? out_[s][c] : scratch + repeat.carry_at[c];
      work.bind_output(static_cast<int>(c), now[c]);
    }
    work.run();
  }
  for (std::size_t c = 0; c < carries; ++c)
    if (now[c] != out_[s][c]) copy(out_[s][c], now[c], work.plan().outputs[c].bytes());
}

// What is recorded has fixed places: carries lie where results do, new ones are copied there.
void Execution::repeat_on_device(std::size_t s) {
  const compiler::Repeat& repeat = *plan_->steps[s].repeat;
  backend::Device& device = *plan_->device;
  Execution &condition = body(s, 0, repeat.arena_at), &work = body(s, 1, repeat.arena_at);
  auto* scratch = static_cast<std::byte*>(scratch_[s]);
  const auto carries = static_cast<std::size_t>(repeat.carries);
  const auto bytes = [&](std::size_t c) { return work.plan().outputs[c].bytes(); };
  condition.bind_output(0, scratch + repeat.predicate_at);
  for (Execution* reader : {&condition, &work})
    for (std::size_t i = 0; i < in_[s].size(); ++i)
      reader->bind_input(static_cast<int>(i), i < carries ? out_[s][i] : in_[s][i]);
  for (std::size_t c = 0; c < carries; ++c) {
    copy(out_[s][c], in_[s][c], bytes(c));
    work.bind_output(static_cast<int>(c), scratch + repeat.carry_at[c]);
  }
  void* const steps = out_[s][carries];
  device.repeat(
      {.predicate = scratch + repeat.predicate_at,
       .steps = steps,
       .max_steps = repeat.max_steps,
       .errors = errors_,
       .too_long = repeat.too_long},
      [&] { condition.run(); },
      [&] {
        for (std::size_t k = 0; k < repeat.kept.size(); ++k) {
          const auto c = static_cast<std::size_t>(repeat.kept[k]);
          device.copy_row(out_[s][carries + 1 + k], out_[s][c], bytes(c), steps);
        }
        work.run();
        for (std::size_t c = 0; c < carries; ++c) copy(out_[s][c], scratch + repeat.carry_at[c], bytes(c));
      });
}

}  // namespace varve::runtime
