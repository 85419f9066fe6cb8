#pragma once

#include <cuda.h>

namespace varve::emulator {

// Most calls need a context that is current on the calling OS thread; forgetting it on a new thread is easily done.
CUresult require_context();

}  // namespace varve::emulator
