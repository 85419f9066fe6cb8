// The one kernel of sort.cpp, offered with the reductions.
#pragma once

#include "backends/cuda/device/launch.h"

namespace varve::cuda {

backend::Prepared sort(const Task& task);

}  // namespace varve::cuda
