// The oracle: plain loops in double, one node at a time.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace varve::reference {

std::unique_ptr<backend::Backend> make_reference_backend();

}  // namespace varve::reference
