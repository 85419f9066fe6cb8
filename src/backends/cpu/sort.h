// The one kernel of sort.cpp, offered with the reductions.
#pragma once

#include "backends/cpu/loops.h"

namespace varve::cpu {

backend::Prepared sort(const Task& task);

}  // namespace varve::cpu
