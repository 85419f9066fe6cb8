#include "base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu.h"
#include "base/neighbours.h"
#include "varve/error.h"

namespace varve {
namespace {

class Threads : public ::testing::Test {
 protected:
  ~Threads() override { set_threads(before_); }
  int before_ = threads();
};

TEST_F(Threads, LimitIsSetAndChecked) {
  EXPECT_GE(threads(), 1);
  set_threads(3);
  EXPECT_EQ(threads(), 3);
  EXPECT_THROW(set_threads(0), Error);
  EXPECT_THROW(set_threads(-2), Error);
  EXPECT_THROW(set_threads(100'000), Error);
  EXPECT_EQ(threads(), 3);
}

TEST_F(Threads, DeterministicIsAFlag) {
  const bool before = deterministic();
  set_deterministic(true);
  EXPECT_TRUE(deterministic());
  set_deterministic(false);
  EXPECT_FALSE(deterministic());
  set_deterministic(before);
}

TEST_F(Threads, BlocksDependOnNAndGrainAlone) {
  for (const int count : {1, 2, 5}) {
    set_threads(count);
    std::vector<std::int64_t> end_of(10, -1);
    parallel_for(10, 4, [&](std::int64_t begin, std::int64_t end) { end_of[static_cast<std::size_t>(begin)] = end; });
    EXPECT_EQ(end_of, (std::vector<std::int64_t>{4, -1, -1, -1, 8, -1, -1, -1, 10, -1})) << count;
  }
}

TEST_F(Threads, EmptyAndHugeRanges) {
  int calls = 0;
  parallel_for(0, 4, [&](std::int64_t, std::int64_t) { ++calls; });
  parallel_for(-3, 4, [&](std::int64_t, std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
  parallel_for(INT64_MAX, INT64_MAX / 2 + 1, [&](std::int64_t begin, std::int64_t end) { EXPECT_LT(begin, end); });
  parallel_for(3, 0, [&](std::int64_t begin, std::int64_t end) { EXPECT_EQ(end, begin + 1); });
}

TEST_F(Threads, EveryElementOnce) {
  set_threads(4);
  std::vector<int> seen(10'007);
  parallel_for(10'007, 13, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
  });
  EXPECT_EQ(seen, std::vector<int>(10'007, 1));
}

TEST_F(Threads, TheFirstExceptionComesBack) {
  for (const int count : {1, 4}) {
    set_threads(count);
    try {
      parallel_for(1000, 1, [](std::int64_t begin, std::int64_t) {
        if (begin % 2 == 1) throw std::runtime_error("odd");
      });
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(std::string(e.what()), "odd");
    }
  }
}

TEST_F(Threads, NestedRunsSerially) {
  set_threads(3);
  std::atomic<int> sum = 0;
  parallel_for(6, 1,
               [&](std::int64_t, std::int64_t) { parallel_for(5, 1, [&](std::int64_t, std::int64_t) { ++sum; }); });
  EXPECT_EQ(sum, 30);
}

int allowed_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

[[noreturn]] void say_where_a_thread_may_run() {
  std::thread([] {
    const int before = allowed_processors();
    use_every_processor();
    std::fprintf(stderr, "%d, then %d", before, allowed_processors());
  }).join();
  std::exit(0);
}

// In a process of its own: OpenMP reads the variable, and binds, when a process starts.
TEST(ThreadsDeathTest, OneOfNoTeamIsNotBoundWithTheFirst) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string all = std::to_string(allowed_processors());
  setenv("OMP_PROC_BIND", "true", 1);
  EXPECT_EXIT(say_where_a_thread_may_run(), ::testing::ExitedWithCode(0), "^1, then " + all + "$");
  unsetenv("OMP_PROC_BIND");
}

TEST_F(Threads, OneThreadWorksAloneWhereItIsToldTo) {
  set_threads(2);
  {
    const Alone alone;
    EXPECT_EQ(threads(), 1);
    const Alone not_more(false);
    EXPECT_EQ(threads(), 1);
  }
  EXPECT_EQ(threads(), 2);
}

TEST(Neighbours, ThreadsSleepWhileOthersWantTheProcessors) {
  EXPECT_FALSE(wants_sleep({.others = 0.1, .idle = 0}, false));  // alone, and busy
  EXPECT_FALSE(wants_sleep({.others = 1, .idle = 1}, false));    // there is room for both
  EXPECT_TRUE(wants_sleep({.others = 1, .idle = 0.1}, false));
  EXPECT_TRUE(wants_sleep({.others = 1, .idle = 0.5}, true));  // idle because threads sleep
  EXPECT_FALSE(wants_sleep({.others = 0.05, .idle = 0.5}, true));
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Beside processes that take all processors: spinning takes what time there is, asleep it is next to none.
TEST_F(Threads, WaitingThreadsSleepBesideOthers) {
  std::vector<pid_t> others;
  for (int i = 0; i < 2 * logical_cpus(); ++i) {
    others.push_back(fork());
    if (others.back() == 0) {
      alarm(20);
      for (std::atomic<int> turn = 0;;) ++turn;
    }
  }
  set_threads(2);
  std::vector<int> touched(2);
  const auto work = [&] {
    share_processors();
    parallel_for(2, 1, [&](std::int64_t begin, std::int64_t) { ++touched[static_cast<std::size_t>(begin)]; });
  };
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      work();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  rounds(300);  // it looks every 200 ms
  const double before = processor_seconds();
  rounds(50);
  const double used = processor_seconds() - before;
  for (const pid_t other : others) {
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
  }
  EXPECT_LT(used, 0.02);  // spinning, one thread uses some 3 ms a round of its share
}

TEST(Cpu, DescribesItself) {
  EXPECT_FALSE(cpu_name().empty());
  EXPECT_FALSE(isa_name().empty());
  EXPECT_GE(physical_cores(), 1);
  EXPECT_LE(physical_cores(), logical_cpus());
  EXPECT_GT(cache_sizes().l1d, 0);
  EXPECT_GE(cache_sizes().l2, cache_sizes().l1d);
  EXPECT_TRUE(cpu_features().avx512 || !cpu_features().avx512_bf16);
}

bool say_yes() { return true; }
bool say_no() { return false; }
bool fail_the_test() {
  ADD_FAILURE() << "asked for tiles that nobody can give";
  return true;
}

TEST(Cpu, AsksForTilesOnlyWhereTheyCanBeHad) {
  EXPECT_EQ(decide_amx(true, true, say_yes), Amx::granted);
  EXPECT_EQ(decide_amx(true, true, say_no), Amx::refused);
  EXPECT_EQ(decide_amx(true, false, fail_the_test), Amx::refused);  // the system does not save them
  EXPECT_EQ(decide_amx(false, true, fail_the_test), Amx::absent);
  EXPECT_EQ(decide_amx(false, false, fail_the_test), Amx::absent);
}

TEST(Cpu, TellsWhetherTilesWereGranted) {
  const CpuFeatures bf16{.avx2 = true, .avx512 = true, .avx512_bf16 = true};
  EXPECT_EQ(isa_name(bf16, Amx::granted), "AVX-512 BF16 AMX");
  EXPECT_EQ(isa_name(bf16, Amx::refused), "AVX-512 BF16 (AMX refused)");
  EXPECT_EQ(isa_name(bf16, Amx::absent), "AVX-512 BF16");
  EXPECT_EQ(isa_name({.avx2 = true, .avx512 = true}, Amx::absent), "AVX-512");
  EXPECT_EQ(isa_name({.avx2 = true}, Amx::absent), "AVX2");
  EXPECT_EQ(isa_name({}, Amx::absent), "baseline");
  EXPECT_EQ(amx(), amx());  // settled by the first call
}

// A quarter of the smallest normal number on each thread of a team: zero where denormals are flushed.
std::vector<float> quarters_on_team(int team) {
  std::vector<float> quarters(static_cast<std::size_t>(team));
  volatile float smallest = std::numeric_limits<float>::min();
#pragma omp parallel for num_threads(team) schedule(static)
  for (int i = 0; i < team; ++i) quarters[static_cast<std::size_t>(i)] = smallest * 0.25f;
  return quarters;
}

#if defined(__x86_64__)

TEST_F(Threads, DenormalsAreFlushedWithinAndKeptAfterwards) {
  constexpr int kTeam = 3;
  const std::vector<float> zeros(kTeam, 0.f), kept(kTeam, std::numeric_limits<float>::min() * 0.25f);
  set_threads(kTeam);
  // On a thread that has no team yet, so that threads are started while denormals are flushed.
  std::thread([&] {
    for (const bool library : {false, true}) {
      {
        const FlushDenormals flush;
        if (library) FlushDenormals::include_team(kTeam);
        std::vector<float> quarters(kTeam, 1.f);
        parallel_for(kTeam, 1, [&](std::int64_t begin, std::int64_t) {
          volatile float smallest = std::numeric_limits<float>::min();
          quarters[static_cast<std::size_t>(begin)] = smallest * 0.25f;
        });
        EXPECT_EQ(quarters, zeros);
        if (library) {
          EXPECT_EQ(quarters_on_team(kTeam), zeros);
        }
      }
      EXPECT_EQ(quarters_on_team(kTeam), kept) << library;
    }
  }).join();
}

#endif

}  // namespace
}  // namespace varve
