// The interpreter's lock, given back while the library works.
#pragma once

#include <nanobind/nanobind.h>

namespace varve::python {

// While one is alive, this thread does not hold the interpreter's lock. When the interpreter has begun to end, a thread
// other than its own does not come back: it would be ended inside a destructor, and the process with it.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

void bind_lock(nanobind::module_& m);

}  // namespace varve::python
