// The ranks of a world of one.
#pragma once

#include <memory>

#include "backend/communicator.h"

namespace varve::runtime {

// For programs whose collectives stay although they change nothing (the lever lone-rank): to see what they cost.
std::unique_ptr<backend::Communicator> lone_rank();

}  // namespace varve::runtime
