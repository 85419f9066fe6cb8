// Ending long work early.
#pragma once

#include <functional>

#include "varve/error.h"

namespace varve {

// Thrown out of evaluate, predict, find_rate and loaders when the check below says so. fit() catches it, saves the run
// and returns.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// A program that handles signals itself, such as an interpreter, says here whether somebody wants the work to end. It
// is asked between steps and while data is waited for, by the thread that called, often: it must be fast. fit() then
// leaves signals alone. Empty: back to handlers of the library's own, in fit() only.
void set_interrupt_check(std::function<bool()> asked);

// For long loops of one's own.
bool has_interrupt_check();
bool interrupt_asked();       // what the check says; false where there is none
void throw_if_interrupted();  // Interrupted

}  // namespace varve
