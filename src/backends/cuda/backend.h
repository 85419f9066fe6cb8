// The CUDA backend, in a library of its own that is loaded when a GPU is asked for.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace varve::cuda {

// For the GPU of this number. `present` false: compiles for a stand-in, runs nothing (tests without a GPU).
std::unique_ptr<backend::Backend> make_cuda_backend(int ordinal, bool present = true);

}  // namespace varve::cuda
