// Which steps of a plan must wait for which: the rest may run side by side.
#pragma once

#include <vector>

#include "compiler/plan.h"

namespace varve::runtime {

// For each step, and last for the copies that end the plan, the earlier steps it waits for: those that wrote what it
// reads, or read or wrote what it writes. What follows from another is left out.
std::vector<std::vector<int>> dependencies(const compiler::Plan& plan);

}  // namespace varve::runtime
