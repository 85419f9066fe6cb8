// Ctrl-C while the library works. Python's handler only notes a signal; what it means to Python is found out here,
// between steps, on the main thread.
#pragma once

#include <atomic>

#include "bindings.h"

namespace varve::python {

// While one is alive on a thread, the library asks Python now and then whether the work should end.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  nb::object taken();     // what was raised, or None; it is not raised again
  void raise_if_asked();  // the same, as an exception

  // An exception that must not pass through what is being done: the work ends cleanly, and it is raised then.
  static void note(nb::python_error&& error);
  // Of the exceptions that are nobody's mistake: KeyboardInterrupt, SystemExit.
  static bool ends_work(const nb::python_error& error);
  // Set when the main thread was asked to end, until that work has ended: for threads that wait for others.
  static const std::atomic<bool>& asked();

 private:
  bool outer_main_;
};

void install_interrupts();

// Without the interpreter's lock, until it is done or Python asks for its end; then that exception is raised.
template <class F>
auto interruptible(Interruptible& scope, F f) {
  try {
    return unlocked(f);
  } catch (const Interrupted&) {
    scope.raise_if_asked();
    throw;
  }
}
template <class F>
auto interruptible(F f) {
  Interruptible scope;
  auto result = interruptible(scope, f);
  scope.raise_if_asked();  // it came at the very end
  return result;
}

}  // namespace varve::python
