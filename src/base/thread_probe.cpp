#include "base/thread_probe.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace varve {

int startable_threads(int wanted) {
  std::mutex guard;
  std::condition_variable end;
  bool done = false;
  std::vector<std::thread> team;
  team.reserve(static_cast<std::size_t>(std::max(wanted, 1)));
  try {
    while (static_cast<int>(team.size()) + 1 < wanted)
      team.emplace_back([&] {
        const std::vector<char> arena(64);  // a thread's memory takes room of its own
        std::unique_lock lock(guard);
        while (!done)
          end.wait_for(lock, std::chrono::hours(1));  // wait() needs a newer C++ run time than wheels may ask for
      });
  } catch (const std::system_error&) {
    // A limit of processes or of memory: of the container, the user or this process.
  }
  {
    const std::lock_guard lock(guard);
    done = true;
  }
  end.notify_all();
  for (std::thread& thread : team) thread.join();
  const int started = static_cast<int>(team.size()) + 1;
  return started >= wanted ? wanted : std::max(1, started / 2);
}

}  // namespace varve
