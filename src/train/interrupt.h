// Ctrl-C and SIGTERM, asked about between steps.
#pragma once

namespace varve::train {

// While one is alive the first such signal is noted and the second ends the process as usual.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  static bool asked();  // a signal came since the outermost scope began

 private:
  bool outermost_;
};

}  // namespace varve::train
