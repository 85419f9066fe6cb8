#include "base/threads.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/ranks.h"
#include "base/text.h"
#include "base/thread_probe.h"
#include "varve/error.h"

namespace varve {
namespace {

// OpenMP ends the process when it cannot start a thread: a slip such as 10000 must not get that far.
constexpr int kMostThreads = 1024;

int initial_threads() {
  if (const char* text = std::getenv("VARVE_THREADS")) {
    const std::string_view view(text);
    int count = 0;
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), count);
    if (error == std::errc() && end == view.data() + view.size() && count >= 1 && count <= kMostThreads)
      return startable_threads(count);
  }
  return startable_threads(cores_of_this_rank());
}

bool initial_deterministic() {
  const char* text = std::getenv("VARVE_DETERMINISTIC");
  return text != nullptr && std::string_view(text) == "1";
}

std::atomic<bool> forked = false;
thread_local bool alone = false;

std::atomic<int>& thread_limit();

// OpenMP's threads are not in the child, and it would wait for them.
void after_fork_in_child() {
  forked = true;
  thread_limit().store(1, std::memory_order_relaxed);
  omp_set_num_threads(1);
}

std::atomic<int>& thread_limit() {
  static std::atomic<int> limit = [] {
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    return initial_threads();
  }();
  return limit;
}

std::atomic<bool>& deterministic_flag() {
  static std::atomic<bool> flag = initial_deterministic();
  return flag;
}

}  // namespace

int threads() { return alone ? 1 : thread_limit().load(std::memory_order_relaxed); }

Alone::Alone(bool is_so) : before_(std::exchange(alone, alone || is_so)) {}
Alone::~Alone() { alone = before_; }

void set_threads(int count) {
  if (forked && count > 1)
    throw Error(cat("set_threads: this process was forked off one that had made threads: it has 1, and cannot use ",
                    count, ". Start a new process instead (spawn)."));
  if (count < 1 || count > kMostThreads) {
    throw Error(cat("set_threads: expected 1 to ", kMostThreads, " threads, got ", count, "."));
  }
  const bool known = count <= thread_limit().load(std::memory_order_relaxed);
  thread_limit().store(known ? count : startable_threads(count), std::memory_order_relaxed);
}

bool deterministic() { return deterministic_flag().load(std::memory_order_relaxed); }

void set_deterministic(bool on) { deterministic_flag().store(on, std::memory_order_relaxed); }

void use_every_processor() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int place = 0; place < omp_get_num_places(); ++place) {  // none where nothing is bound
    std::vector<int> processors(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, processors.data());
    for (const int processor : processors)
      if (processor >= 0 && processor < CPU_SETSIZE) CPU_SET(processor, &all);
  }
  if (CPU_COUNT(&all) > 0) sched_setaffinity(0, sizeof all, &all);
}

void detail::run_blocks(std::int64_t blocks, void (*run)(void*, std::int64_t), void* context) {
  // Always the whole team: OpenMP ends the threads that a smaller one leaves over, and starts them again for the next.
  const int team = threads();
  if (team <= 1 || blocks <= 1 || omp_in_parallel()) {
    for (std::int64_t block = 0; block < blocks; ++block) run(context, block);
    return;
  }
  std::atomic<bool> failed = false;
  std::exception_ptr first;
  std::mutex guard;
  const TeamMode mode(team);
  // Static: each thread meets the same rows in one kernel after another, which keeps them in its cache.
#pragma omp parallel num_threads(team)
  {
    const TeamMode::Here here(mode);
#pragma omp for schedule(static) nowait
    for (std::int64_t block = 0; block < blocks; ++block) {
      if (failed.load(std::memory_order_relaxed)) continue;
      try {
        run(context, block);
      } catch (...) {
        // Leaving a parallel region by exception would end the process.
        const std::lock_guard lock(guard);
        if (!first) first = std::current_exception();
        failed.store(true, std::memory_order_relaxed);
      }
    }
  }
  if (first) std::rethrow_exception(first);
}

#if defined(__x86_64__)

namespace {
constexpr unsigned kFlush = 0x8040;  // FTZ: results, DAZ: operands
thread_local FlushDenormals* outermost = nullptr;
}  // namespace

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  if (!outermost) outermost = this;
  _mm_setcsr(saved_ | kFlush);
}

FlushDenormals::~FlushDenormals() {
  if (outermost == this) {
    outermost = nullptr;
    const unsigned mode = saved_;
#pragma omp parallel num_threads(team_) if (team_ > 1)
    _mm_setcsr(mode);
  }
  _mm_setcsr(saved_);
}

void FlushDenormals::include_team(int threads) {
  if (!outermost || threads <= std::max(outermost->team_, 1) || omp_in_parallel()) return;
#pragma omp parallel num_threads(threads)
  _mm_setcsr(_mm_getcsr() | kFlush);
  outermost->team_ = threads;
}

// A thread that the region starts has the mode of the one that begins it: which mode it shall have afterwards, only
// that one knows.
TeamMode::TeamMode(int threads) : inside_(_mm_getcsr()), outside_(inside_) {
  if (!outermost) return;
  if (outermost->team_ > 0)
    outermost->team_ = std::max(outermost->team_, threads);
  else
    outside_ = outermost->saved_;
}

TeamMode::Here::Here(const TeamMode& mode) : mode_(mode) {
  if (omp_get_thread_num() != 0) _mm_setcsr(mode_.inside_);
}
TeamMode::Here::~Here() {
  if (omp_get_thread_num() != 0) _mm_setcsr(mode_.outside_);
}

#else

FlushDenormals::FlushDenormals() : saved_(0) {}
FlushDenormals::~FlushDenormals() = default;
void FlushDenormals::include_team(int) {}
TeamMode::TeamMode(int) {}
TeamMode::Here::Here(const TeamMode& mode) : mode_(mode) {}
TeamMode::Here::~Here() { static_cast<void>(mode_); }

#endif

}  // namespace varve
