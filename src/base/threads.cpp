#include "base/threads.h"

#include <omp.h>
#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/cpu.h"
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
  return startable_threads(physical_cores());
}

bool initial_deterministic() {
  const char* text = std::getenv("VARVE_DETERMINISTIC");
  return text != nullptr && std::string_view(text) == "1";
}

std::atomic<int>& thread_limit() {
  static std::atomic<int> limit = initial_threads();
  return limit;
}

std::atomic<bool>& deterministic_flag() {
  static std::atomic<bool> flag = initial_deterministic();
  return flag;
}

}  // namespace

int threads() { return thread_limit().load(std::memory_order_relaxed); }

void set_threads(int count) {
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
  // Static: each thread meets the same rows in one kernel after another, which keeps them in its cache.
#pragma omp parallel for num_threads(team) schedule(static)
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
  if (first) std::rethrow_exception(first);
}

#if defined(__x86_64__)

namespace {
constexpr unsigned kFlush = 0x8040;  // FTZ: results, DAZ: operands
thread_local int flushed_team = 0;   // OpenMP keeps a team for each thread that asks for one
}  // namespace

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | kFlush);
  const int team = threads();
  if (team <= flushed_team || omp_in_parallel()) return;
    // Threads of a team stay, and nothing else runs on them.
#pragma omp parallel num_threads(team)
  _mm_setcsr(_mm_getcsr() | kFlush);
  flushed_team = team;
}
FlushDenormals::~FlushDenormals() { _mm_setcsr(saved_); }

#else

FlushDenormals::FlushDenormals() : saved_(0) {}
FlushDenormals::~FlushDenormals() = default;

#endif

}  // namespace varve
