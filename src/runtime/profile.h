#pragma once

#include <vector>

#include "compiler/plan.h"
#include "varve/compile.h"

namespace varve::runtime {

Profile make_profile(const compiler::Plan& plan, const std::vector<double>& seconds, int repeats);

}  // namespace varve::runtime
