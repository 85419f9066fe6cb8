// Whether a pattern may take two places of a graph into one kernel.
#pragma once

#include "ir/node.h"

namespace varve::cpu {

// Whether the value is computed from what the node gives.
bool depends_on(const ir::Value& value, const ir::Node* node);

}  // namespace varve::cpu
