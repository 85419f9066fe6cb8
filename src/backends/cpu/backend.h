// The multi-core CPU: oneDNN where it wins, SIMD tiles for generated groups, plain kernels for the rest.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace varve::cpu {

std::unique_ptr<backend::Backend> make_cpu_backend();

}  // namespace varve::cpu
