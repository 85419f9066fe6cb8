#include "lock.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace varve::python {
namespace {

namespace nb = nanobind;

std::atomic<int> inside{0};  // threads at work in the library that will want the lock back
std::atomic<bool> ending{false};
std::atomic<std::thread::id> ends_it{};
thread_local int depth = 0;  // Python functions that the library calls may call it again

// Before the interpreter ends: threads at work in the library finish their call, for a while, and then stay out of it.
// Those that call Python functions from there can do so meanwhile.
void before_the_end() {
  ends_it = std::this_thread::get_id();
  ending = true;
  const nb::gil_scoped_release release;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (inside > 0 && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

Unlocked::Unlocked() {
  if (depth++ == 0) ++inside;
  state_ = PyEval_SaveThread();
}

Unlocked::~Unlocked() {
  const bool outermost = --depth == 0;
  if (outermost && ending && ends_it.load() != std::this_thread::get_id()) {
    --inside;
    for (;;) pause();
  }
  PyEval_RestoreThread(state_);
  if (outermost) --inside;
}

void bind_lock(nb::module_& m) {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&before_the_end));
  // Asked by every import, since a second interpreter may be given the module of the first.
  m.def("_refuse_other_interpreters", [] {
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
      throw nb::import_error(
          "varve cannot be used in a sub-interpreter: the library is one for the process. Import it in the main "
          "interpreter, or use another process.");
  });
}

}  // namespace varve::python
