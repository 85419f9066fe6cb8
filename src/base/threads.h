// How many threads work, and the one way to share a loop among them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace varve {

// The current limit. At start: VARVE_THREADS if it is a number from 1 to 1024, else the physical cores this process may
// use. In a process that was forked off it is 1: the other threads stayed behind.
int threads();
void set_threads(int count);  // throws Error unless 1 <= count <= 1024; and after a fork, unless 1

// While one is alive, this thread works alone: waking others takes longer than the work.
class Alone {
 public:
  explicit Alone(bool is_so = true);
  ~Alone();
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  bool before_;
};

// Whether results must not depend on the thread count (kernels then split and sum in fixed blocks). At start:
// VARVE_DETERMINISTIC=1, else false.
bool deterministic();
void set_deterministic(bool on);

// For a thread that belongs to no team: OMP_PROC_BIND binds the first thread of a process to one processor, and those
// that it starts would share that one. This lets the calling thread run on all that the process may use.
void use_every_processor();

namespace detail {
// Calls run(context, block) for every block in [0, blocks); rethrows the first exception after all threads have joined.
void run_blocks(std::int64_t blocks, void (*run)(void* context, std::int64_t block), void* context);
}  // namespace detail

// f(begin, end) over [0, n) in blocks of exactly `grain` (the last one shorter). The blocks depend on n and grain
// alone, never on the thread count, so partial sums per block repeat bit for bit. Serial for one block, and inside
// another parallel_for. The first exception is rethrown here; blocks that had not started by then are skipped.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F f) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (n <= grain) return static_cast<void>(f(std::int64_t{0}, n));
  struct Context {
    F& f;
    std::int64_t n, grain;
  } context{f, n, grain};
  detail::run_blocks((n - 1) / grain + 1,
                     [](void* p, std::int64_t block) {
                       Context& c = *static_cast<Context*>(p);
                       const std::int64_t begin = block * c.grain;
                       c.f(begin, begin + std::min(c.grain, c.n - begin));
                     },
                     &context);
}

// While one is alive, this thread and the team that works for it take numbers below the smallest normal one as zero.
// Gradients that fade over hundreds of steps end there, and some processors need a hundred times as long for them.
// OpenMP's threads are those of the caller's own loops, too: afterwards all have the caller's floating-point mode.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

  // For a library that has parallel regions of its own: its team flushes, too, until the one that is alive on this
  // thread ends. Nothing where none is.
  static void include_team(int threads);

 private:
  friend class TeamMode;
  unsigned saved_;
  int team_ = 0;
};

// Made before a parallel region of ours: its threads compute in the floating-point mode of the one that begins it.
class TeamMode {
 public:
  explicit TeamMode(int threads);

  // Made on each thread of the region.
  class Here {
   public:
    explicit Here(const TeamMode& mode);
    ~Here();
    Here(const Here&) = delete;
    Here& operator=(const Here&) = delete;

   private:
    const TeamMode& mode_;
  };

 private:
  unsigned inside_ = 0, outside_ = 0;
};

}  // namespace varve
