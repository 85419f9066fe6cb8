#include "train/interrupt.h"

#include <array>
#include <atomic>
#include <csignal>

#include "varve/interrupt.h"

namespace varve::train {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
std::atomic<int> scopes{0};
std::atomic<int> came{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");
std::array<struct sigaction, kSignals.size()> saved;

// Signals are handled on a stack of their own: generated code of oneDNN's matrix product uses the stack pointer as an
// ordinary register while it runs, and a handler on "the stack" would then write its frame into the heap. Process-wide
// signals go to the main thread first, which is where fit runs in a program that wants Ctrl-C.
std::array<char, 1 << 16> handler_stack;
stack_t saved_stack;

extern "C" void note_signal(int signal) { came.store(signal); }

}  // namespace

InterruptScope::InterruptScope() : handles_(scopes.fetch_add(1) == 0) {
  if (!handles_) return;
  came.store(0);
  handles_ = !has_interrupt_check();
  if (!handles_) return;
  stack_t stack = {};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  sigaltstack(&stack, &saved_stack);
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags =
      static_cast<int>(SA_RESTART | SA_RESETHAND | SA_ONSTACK);  // the second signal finds the default action
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &saved[i]);
    if (saved[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptScope::~InterruptScope() {
  if (handles_) {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &saved[i], nullptr);
    sigaltstack(&saved_stack, nullptr);
  }
  scopes.fetch_sub(1);
}

int InterruptScope::signal() { return interrupt_asked() ? SIGINT : came.load(); }

}  // namespace varve::train
