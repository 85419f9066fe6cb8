// What is known of an operator: from its record, and from the backends' answers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "varve/op.h"

namespace varve::cli {

struct OpFacts {
  const OpRecord* record = nullptr;
  std::string formula;                                    // of an elementwise operator
  std::string gradient;                                   // "formula", "own", "decomposition", "none"
  std::string batching;                                   // by which vmap calls it: the same, or "refused"
  std::vector<DType> types;                               // that its floating input may have
  std::vector<std::pair<std::string, std::string>> runs;  // backend, how: see below
};

// How a backend runs it: "kernel" of its own for it, "fused" with its neighbours from the formula, "decomposed" into
// other operators, "view" (nothing to do), "loop", "input" (bound, not computed), or "-".
std::vector<OpFacts> op_facts(const std::vector<const OpRecord*>& records);

}  // namespace varve::cli
