#include "interrupt.h"

#include <signal.h>

#include <array>
#include <chrono>
#include <optional>

namespace varve::python {
namespace {

using Clock = std::chrono::steady_clock;

// Taking the interpreter's lock may mean to wait for another thread: not after every step.
constexpr auto kPatience = std::chrono::milliseconds(25);

struct Work {
  int depth = 0;
  bool main = false;  // only there does Python handle signals
  Clock::time_point asked = {};
  std::optional<nb::python_error> raised;
};

Work& work() {
  thread_local Work mine;
  return mine;
}

std::atomic<bool> ending = false;

bool asked_to_end() {
  Work& mine = work();
  if (mine.depth == 0) return false;
  if (mine.raised) return true;
  if (!mine.main) return false;
  const auto now = Clock::now();
  if (now - mine.asked < kPatience) return false;
  mine.asked = now;
  const nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() == 0) return false;
  Interruptible::note(nb::python_error());
  return true;
}

bool on_main_thread() {
  const nb::module_ threading = nb::module_::import_("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

// Signals are handled on a stack of their own: generated code of oneDNN's matrix product uses the stack pointer as an
// ordinary register while it runs. Python's handlers ask for one; the main thread needs to have it.
void give_signals_a_stack() {
  static std::array<char, 1 << 16> memory;
  stack_t old = {};
  if (sigaltstack(nullptr, &old) != 0 || !(old.ss_flags & SS_DISABLE)) return;
  stack_t stack = {};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, nullptr);
}

}  // namespace

Interruptible::Interruptible() : outer_main_(work().main) {
  Work& mine = work();
  if (mine.depth++ == 0) {
    mine.main = on_main_thread();
    mine.asked = {};
    if (mine.main) ending = false;
  }
}

Interruptible::~Interruptible() {
  Work& mine = work();
  if (--mine.depth == 0) {
    if (mine.main) ending = false;
    mine.raised.reset();
  }
  mine.main = outer_main_;
}

nb::object Interruptible::taken() {
  Work& mine = work();
  if (!mine.raised) return nb::none();
  nb::object value = nb::borrow(mine.raised->value());
  mine.raised.reset();
  return value;
}

void Interruptible::raise_if_asked() {
  const nb::object raised = taken();
  if (raised.is_none()) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())), raised.ptr());
  throw nb::python_error();
}

void Interruptible::note(nb::python_error&& error) {
  Work& mine = work();
  if (!mine.raised) mine.raised.emplace(std::move(error));
  if (mine.main) ending = true;
}

bool Interruptible::ends_work(const nb::python_error& error) { return !error.matches(PyExc_Exception); }

const std::atomic<bool>& Interruptible::asked() { return ending; }

void install_interrupts() {
  give_signals_a_stack();
  set_interrupt_check(asked_to_end);
}

}  // namespace varve::python
