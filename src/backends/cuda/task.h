// Kernels for every call of an operator.
#pragma once

#include <string>

#include "backends/cuda/claims.h"
#include "base/text.h"

namespace varve::cuda {

using backend::Maker;
using backend::nothing;
using backend::Rows;
using backend::Task;

// A claim of this node alone.
inline backend::Claim claim_of(const ir::NodePtr& node, Maker make) {
  return backend::claim_of(cat("cuda ", node->op->name), node, make);
}

// Offers the kernel for every call of the operator.
inline void offer(ClaimMap& map, const std::string& op, Maker make) { backend::offer(map, "cuda", op, make); }

}  // namespace varve::cuda
