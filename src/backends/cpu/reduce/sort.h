// The one kernel of sort.cpp, offered with the reductions.
#pragma once

#include "backends/cpu/common/loops.h"

namespace varve::cpu {

backend::Prepared sort(const Task& task);

}  // namespace varve::cpu
