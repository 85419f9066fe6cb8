#include "backends/cpu/common/reach.h"

#include <unordered_set>

namespace varve::cpu {

bool depends_on(const ir::Value& value, const ir::Node* node) {
  std::unordered_set<const ir::Node*> seen;
  std::vector<const ir::Node*> stack{value.node.get()};
  while (!stack.empty()) {
    const ir::Node* next = stack.back();
    stack.pop_back();
    if (next == node) return true;
    // Inputs are older than what reads them.
    if (next->id < node->id || !seen.insert(next).second) continue;
    for (const ir::Value& input : next->inputs) stack.push_back(input.node.get());
  }
  return false;
}

}  // namespace varve::cpu
