// Generated groups: elementwise formulas with reductions, one kernel each, or several that share a launch.
#pragma once

#include <vector>

#include "backend/backend.h"

namespace varve::cuda {

// A group with its operands as the compiler laid them out.
struct GroupPart {
  backend::Group group;
  std::vector<backend::Port> in, out;
};

// All parts in one launch: none may read what another writes. The operands of the kernel are those of the first part,
// then those of the second, and so on. A single part is the plain case.
backend::Prepared prepare_merged(const std::vector<GroupPart>& parts);

}  // namespace varve::cuda
