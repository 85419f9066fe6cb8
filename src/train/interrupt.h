// Ctrl-C, SIGTERM and SIGHUP, asked about between steps; or what the host says, where it handles signals itself.
#pragma once

namespace varve::train {

// While one is alive the first such signal is noted and the second ends the process as usual. Signals that the process
// ignores, as `nohup` makes it ignore SIGHUP, stay ignored. A host with a check of its own (set_interrupt_check) keeps
// its handlers, and its answer stands for SIGINT.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  static int signal();  // the one that came since the outermost scope began; 0: none
  static bool asked() { return signal() != 0; }

 private:
  bool handles_;  // signals, until it ends
};

}  // namespace varve::train
