// Backends that live in libraries of their own, loaded when first asked for.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace varve::runtime {

// The CUDA backend for the GPU of this number. Throws Error that says what is missing: library, driver, GPU, version.
std::unique_ptr<backend::Backend> load_cuda_backend(int ordinal);

}  // namespace varve::runtime
