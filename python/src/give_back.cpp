// Things of other owners that tensors no longer need: given back by the interpreter, when it is free.
#include <deque>
#include <mutex>

#include "bindings.h"

namespace varve::python {
namespace {

struct Waiting {
  std::mutex mutex;
  std::deque<std::function<void()>> releases;
};
Waiting& waiting() {
  static auto& queue = *new Waiting;  // tensors may outlive static objects
  return queue;
}

int run_pending(void*) {
  give_back_now();
  return 0;
}

}  // namespace

GiveBack::~GiveBack() {
  if (!Py_IsInitialized()) {  // too late for anything of Python's, its release among it
    static_cast<void>(new std::function<void()>(std::move(release_)));
    return;
  }
  {
    const std::lock_guard lock(waiting().mutex);
    waiting().releases.push_back(std::move(release_));
  }
  // Refused when others' calls fill the interpreter's queue: the next tensor on foreign memory gives back what waits.
  static_cast<void>(Py_AddPendingCall(&run_pending, nullptr));
}

void give_back_now() {
  for (;;) {
    std::function<void()> release;
    {
      const std::lock_guard lock(waiting().mutex);
      if (waiting().releases.empty()) return;
      release = std::move(waiting().releases.front());
      waiting().releases.pop_front();
    }
    release();
  }
}

}  // namespace varve::python
