// Ctrl-C, SIGTERM and SIGHUP, asked about between steps.
#pragma once

namespace varve::train {

// While one is alive the first such signal is noted and the second ends the process as usual. Signals that the process
// ignores, as `nohup` makes it ignore SIGHUP, stay ignored.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  static int signal();  // the one that came since the outermost scope began; 0: none
  static bool asked() { return signal() != 0; }

 private:
  bool outermost_;
};

}  // namespace varve::train
