#include "base/neighbours.h"

#include <dlfcn.h>
#include <omp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "base/thread_probe.h"

namespace varve {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenLooks(200);

// GNU's OpenMP reads its policy when it is loaded, before anybody can set it. But it lets threads spin for long
// (300,000 turns, milliseconds) only while it has no more of them than there are processors, else for 100 turns. A team
// of one more than there are processors, which does nothing, makes it so for as long as the team exists.
class IdleTeam {
 public:
  bool exists() const { return thread_.joinable(); }

  void make() {
    const int count = omp_get_num_procs() + 1;
    if (startable_threads(count + 1) < count + 1) return;  // OpenMP would end the process
    made_ = false;
    ends_ = false;
    sigset_t all, before;  // signals are not for it
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this, count] {
      int members = 0;
#pragma omp parallel num_threads(count) reduction(+ : members)
      members += 1;
      made_ = members > 0;
      made_.notify_all();
      ends_.wait(false);
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    made_.wait(false);
  }

  void end() {
    ends_ = true;
    ends_.notify_all();
    thread_.join();  // its team goes with it
  }

 private:
  std::thread thread_;
  std::atomic<bool> made_{false}, ends_{false};
};

struct Times {
  double busy = 0, idle = 0, own = 0;  // seconds of processors
  Clock::time_point at = {};
};

// False where the system does not say.
bool read_times(Times& times) {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0;
  if (!(file >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft)) return false;
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  times = {(user + nice + system + interrupts + soft) * tick, (idle + waiting) * tick,
           static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec), Clock::now()};
  return true;
}

class Neighbours {
 public:
  void look() {
    if (Clock::now().time_since_epoch().count() < next_.load(std::memory_order_relaxed)) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    next_ = (Clock::now() + kBetweenLooks).time_since_epoch().count();
    Times now;
    if (!read_times(now)) return;
    const double elapsed = std::chrono::duration<double>(now.at - before_.at).count();
    const Busy busy{(now.busy - before_.busy - (now.own - before_.own)) / elapsed, (now.idle - before_.idle) / elapsed};
    const bool first = before_.at == Clock::time_point();
    before_ = now;
    if (!first) sleep_or_spin(wants_sleep(busy, asleep_));
  }

 private:
  using SetBlockTime = void (*)(int);
  void sleep_or_spin(bool sleep) {
    if (sleep == asleep_) return;
    asleep_ = sleep;
    if (const auto set = reinterpret_cast<SetBlockTime>(dlsym(RTLD_DEFAULT, "kmp_set_blocktime")))
      set(sleep ? 0 : 200);  // LLVM's, and its own default
    else if (sleep)
      team_.make();
    else if (team_.exists())
      team_.end();
  }

  std::atomic<Clock::rep> next_{0};
  std::mutex mutex_;
  Times before_;
  bool asleep_ = false;
  IdleTeam team_;
};

}  // namespace

bool wants_sleep(const Busy& busy, bool asleep) {
  if (asleep) return busy.others > 0.15 && busy.idle < 1;  // threads that sleep leave processors idle now and then
  return busy.others > 0.25 && busy.idle < 0.25;
}

void share_processors() {
  static const bool is_told =
      std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT") || std::getenv("KMP_BLOCKTIME");
  if (is_told) return;
  static auto& neighbours = *new Neighbours;  // its thread may outlive everything else
  neighbours.look();
}

}  // namespace varve
