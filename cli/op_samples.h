// A call of each operator: what backends are asked about.
#pragma once

#include <unordered_map>

#include "ir/node.h"

namespace varve::cli {

// Small calls through the public API and their gradients, by operator.
std::unordered_map<const OpRecord*, ir::NodePtr> op_samples();

}  // namespace varve::cli
