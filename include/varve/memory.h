// The error of memory that is not there, of the processor or of a device: its text says how much was wanted, held and
// free. What was computed before stays, and a smaller batch can go on.
#pragma once

#include "varve/error.h"

namespace varve {

class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace varve
