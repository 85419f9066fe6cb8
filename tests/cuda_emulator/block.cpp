#include "block.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>

#include "settings.h"

namespace varve::emulator {
namespace {

thread_local FiberPool fibers(&BlockRun::fiber_body);
thread_local BlockRun* running = nullptr;

constexpr EmuRuntime kRuntime = {
    .barrier = [](EmuBlock*, int predicate) { return running->barrier(predicate); },
    .collective = [](EmuBlock*, unsigned mask, EmuCombine combine,
                     void* payload) { running->collective(mask, combine, payload); },
    .pause = [](EmuBlock*) { running->pause(); },
    .live_lanes = [](EmuBlock*) { return running->live_lanes(); },
    .begin_copy = [](EmuBlock*, const EmuCopy& copy) { running->begin_copy(copy); },
    .take_copy = [](EmuBlock*, const unsigned long long* barrier,
                    EmuCopy* copy) { return running->take_copy(barrier, copy); },
    .assertion_failed =
        [](EmuBlock*, const char* expression, const char* file, int line) {
          running->fail(Outcome::assertion,
                        std::string(file) + ":" + std::to_string(line) + ": assertion failed: " + expression);
        },
};

std::string text(EmuIndex index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

unsigned volume(EmuIndex size) { return size.x * size.y * size.z; }

EmuIndex unravel(unsigned thread, EmuIndex size) {
  return {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
}

}  // namespace

BlockRun::BlockRun(Grid& grid)
    : grid_(grid), threads_(volume(grid.threads)), warps_((threads_.size() + 31) / 32), ready_(threads_.size()) {
  for (unsigned thread = 0; thread < threads_.size(); ++thread) indices_.push_back(unravel(thread, grid.threads));
}

void BlockRun::run(EmuBlock& block) {
  block_ = &block;
  block.block_size = grid_.threads;
  block.grid_size = grid_.blocks;
  block.runtime = &kRuntime;
  block.polls = 0;
  // Threads of one block seldom wait for each other through memory; blocks that run at once do little else.
  block.polls_per_pause = grid_.cooperative ? 16 : 4096;
  std::fill(threads_.begin(), threads_.end(), Thread{});
  live_ = static_cast<unsigned>(threads_.size());
  for (unsigned w = 0; w < warps_.size(); ++w) {
    unsigned lanes = std::min(32u, live_ - 32 * w);
    warps_[w] = {.live = lanes == 32 ? ~0u : (1u << lanes) - 1, .waiting = 0};
  }
  ready_begin_ = ready_count_ = 0;
  next_ = arrived_ = nonzero_ = 0;
  copies_.clear();
  pauses_ = 0;
  running = this;
  schedule();
  if (!abandoned() && live_ != 0) {
    report(describe_deadlock());
    grid_.outcome = Outcome::failed;
  }
  if (!abandoned() && !copies_.empty()) {
    report(std::to_string(copies_.size()) + " tiles were asked for and nobody waited for them");
    grid_.outcome = Outcome::failed;
  }
  if (abandoned()) fibers.restart_all();
  running = nullptr;
}

void BlockRun::schedule() {
  while (!abandoned()) {
    if (next_ < threads_.size()) {
      fiber_ = fibers.take();
    } else if (ready_count_ != 0) {
      select(take_ready());
      fiber_ = threads_[current_].fiber;
    } else {
      return;
    }
    fiber_->enter(scheduler_);
  }
}

// The bottom of every fiber. It outlives blocks: each time it is entered, it serves the block that runs then.
void BlockRun::fiber_body() {
  for (;;) {
    Fiber* self = running->fiber_;
    running->run_threads();
    fibers.give_back(self);
    self->leave(running->scheduler_);
  }
}

void BlockRun::run_threads() {
  while (next_ < threads_.size() && !abandoned()) {
    unsigned thread = next_++;
    threads_[thread].fiber = fiber_;
    select(thread);
    grid_.kernel->call(grid_.arguments);
    finish_thread();
  }
}

void BlockRun::select(unsigned thread) {
  current_ = thread;
  threads_[thread].state = State::running;
  block_->thread = indices_[thread];
}

void BlockRun::finish_thread() {
  if (threads_[current_].fiber->overflowed()) fail(Outcome::failed, "the stack of a thread overflowed");
  threads_[current_].state = State::done;
  --live_;
  Warp& warp = warps_[current_ / 32];
  warp.live &= ~(1u << current_ % 32);
  // Collectives and barriers wait for the threads that have not returned: this may have been the last one.
  for (unsigned lane = 0; lane < 32 && warp.waiting != 0; ++lane) {
    if (!(warp.waiting >> lane & 1)) continue;
    const Thread& waiting = threads_[current_ / 32 * 32 + lane];
    complete_collective(current_ / 32, waiting.mask, waiting.combine);
  }
  if (live_ != 0 && arrived_ == live_) release_barrier();
}

void BlockRun::wait(State state) {
  unsigned self = current_;
  threads_[self].state = state;
  threads_[self].fiber->leave(scheduler_);
}

void BlockRun::make_ready(unsigned thread) {
  threads_[thread].state = State::ready;
  std::size_t end = ready_begin_ + ready_count_++;
  ready_[end < ready_.size() ? end : end - ready_.size()] = thread;
}

unsigned BlockRun::take_ready() {
  unsigned thread = ready_[ready_begin_];
  ready_begin_ = ready_begin_ + 1 == ready_.size() ? 0 : ready_begin_ + 1;
  --ready_count_;
  return thread;
}

EmuBarrierResult BlockRun::barrier(int predicate) {
  ++arrived_;
  nonzero_ += predicate != 0;
  if (arrived_ == live_) {
    release_barrier();
  } else {
    wait(State::at_barrier);
  }
  return barrier_result_;
}

void BlockRun::release_barrier() {
  barrier_result_ = {static_cast<int>(arrived_), static_cast<int>(nonzero_)};
  arrived_ = nonzero_ = 0;
  pauses_ = 0;
  for (unsigned thread = 0; thread < threads_.size(); ++thread)
    if (threads_[thread].state == State::at_barrier) make_ready(thread);
}

void BlockRun::collective(unsigned mask, EmuCombine combine, void* payload) {
  unsigned bit = 1u << current_ % 32;
  if (!(mask & bit)) fail(Outcome::failed, "a thread calls a warp function whose mask leaves it out");
  Thread& self = threads_[current_];
  self.mask = mask;
  self.combine = combine;
  self.payload = payload;
  warps_[current_ / 32].waiting |= bit;
  if (!complete_collective(current_ / 32, mask, combine)) wait(State::in_collective);
}

bool BlockRun::complete_collective(unsigned warp, unsigned mask, EmuCombine combine) {
  unsigned lanes = mask & warps_[warp].live;
  if (lanes & ~warps_[warp].waiting) return false;
  void* payloads[32] = {};
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    const Thread& thread = threads_[32 * warp + lane];
    if (thread.mask != mask || thread.combine != combine) return false;
    payloads[lane] = thread.payload;
  }
  combine(lanes, payloads);
  warps_[warp].waiting &= ~lanes;
  pauses_ = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1 && threads_[32 * warp + lane].state == State::in_collective) make_ready(32 * warp + lane);
  return true;
}

bool BlockRun::take_copy(const unsigned long long* barrier, EmuCopy* copy) {
  auto found = std::find_if(copies_.begin(), copies_.end(), [&](const EmuCopy& c) { return c.barrier == barrier; });
  if (found == copies_.end()) return false;
  *copy = *found;
  copies_.erase(found);
  return true;
}

void BlockRun::pause() {
  using Clock = std::chrono::steady_clock;
  // Nothing but polling since the last barrier, for very long: what the threads wait for will not come.
  static const auto patience = std::chrono::seconds(setting("VARVE_EMULATOR_TIMEOUT", 60));
  if (pauses_++ == 0) progress_ = Clock::now();
  if (pauses_ % 1024 == 0 && Clock::now() - progress_ > patience)
    fail(Outcome::failed, "threads have waited for memory to change for " + std::to_string(patience.count()) + " s");
  if (grid_.cooperative) sched_yield();
  make_ready(current_);
  wait(State::ready);
}

void BlockRun::fail(Outcome outcome, const std::string& message) {
  report(message);
  grid_.outcome = outcome;
  for (;;) threads_[current_].fiber->leave(scheduler_);
}

void BlockRun::report(const std::string& message) const {
  std::fprintf(stderr, "CUDA emulator: kernel %s, block %s, thread %s: %s\n", grid_.kernel_name,
               text(block_->block).c_str(), text(block_->thread).c_str(), message.c_str());
}

std::string BlockRun::describe_deadlock() const {
  std::string message = "deadlock: " + std::to_string(arrived_) + " of the " + std::to_string(live_) +
                        " threads that have not returned wait at __syncthreads";
  for (unsigned thread = 0; thread < threads_.size(); ++thread) {
    if (threads_[thread].state != State::in_collective) continue;
    const Warp& warp = warps_[thread / 32];
    char masks[160];
    std::snprintf(masks, sizeof(masks), "; warp %u waits in warp functions: lanes %08x of %08x, lane %u with mask %08x",
                  thread / 32, warp.waiting, warp.live, thread % 32, threads_[thread].mask);
    return message + masks;
  }
  return message;
}

}  // namespace varve::emulator
