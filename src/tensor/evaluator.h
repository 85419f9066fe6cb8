// How tensors get their values. Declared here, defined by the runtime, so that tensors know no compiler.
#pragma once

#include <vector>

#include "ir/node.h"

namespace varve {

// Computes the values and every other live handle in their subgraphs; throws Error.
void evaluate(const std::vector<ir::Value>& values);

}  // namespace varve
