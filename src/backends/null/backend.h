// Compiles everything and runs nothing: for tests of the compiler without hardware.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace varve::null {

std::unique_ptr<backend::Backend> make_null_backend();

}  // namespace varve::null
