// One block of a launch, run on the calling OS thread.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "fiber.h"
#include "prelude/abi.h"

namespace varve::emulator {

enum class Outcome { done, failed, assertion };

// What the blocks of a launch have in common.
struct Grid {
  const char* kernel_name;
  const EmuKernel* kernel;
  void* const* arguments;
  EmuIndex blocks, threads;
  bool cooperative;
  std::atomic<Outcome> outcome = Outcome::done;
};

// Threads run one after another on one fiber for as long as none waits. A thread that waits keeps its fiber, and the
// next thread gets another: a kernel without barriers never pays for a switch.
class BlockRun {
 public:
  explicit BlockRun(Grid& grid);

  void run(EmuBlock& block);  // with `block`, `dynamic_shared` and `dynamic_shared_bytes` set; fills in the rest

  EmuBarrierResult barrier(int predicate);
  void collective(unsigned mask, EmuCombine combine, void* payload);
  void pause();
  unsigned live_lanes() const { return warps_[current_ / 32].live; }
  void begin_copy(const EmuCopy& copy) { copies_.push_back(copy); }
  bool take_copy(const unsigned long long* barrier, EmuCopy* copy);
  void fail(Outcome outcome, const std::string& message);  // called by a running thread, it does not return

  static void fiber_body();

 private:
  enum class State { unstarted, running, ready, at_barrier, in_collective, done };
  struct Thread {
    State state = State::unstarted;
    Fiber* fiber = nullptr;
    unsigned mask = 0;
    EmuCombine combine = nullptr;
    void* payload = nullptr;
  };
  struct Warp {
    unsigned live = 0;     // lanes that exist and have not returned
    unsigned waiting = 0;  // lanes inside a collective
  };

  void schedule();
  void run_threads();
  void wait(State state);
  void make_ready(unsigned thread);
  unsigned take_ready();
  void finish_thread();
  void release_barrier();
  bool complete_collective(unsigned warp, unsigned mask, EmuCombine combine);
  void select(unsigned thread);
  void report(const std::string& message) const;
  std::string describe_deadlock() const;
  bool abandoned() const { return grid_.outcome.load(std::memory_order_relaxed) != Outcome::done; }

  Grid& grid_;
  EmuBlock* block_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<EmuIndex> indices_;  // of each thread: divisions at every switch would cost more than the switch
  std::vector<unsigned> ready_;    // a ring: a thread is in it at most once
  std::size_t ready_begin_ = 0, ready_count_ = 0;
  unsigned next_ = 0, live_ = 0, current_ = 0;
  unsigned arrived_ = 0, nonzero_ = 0;
  EmuBarrierResult barrier_result_{};
  std::vector<EmuCopy> copies_;  // on their way
  unsigned long long pauses_ = 0;
  std::chrono::steady_clock::time_point progress_;
  Fiber* fiber_ = nullptr;
  void* scheduler_ = nullptr;
};

}  // namespace varve::emulator
