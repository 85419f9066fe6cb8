// The cost of what was recorded and has not run.
#include <mutex>
#include <unordered_set>

#include "ir/node.h"
#include "varve/compile.h"

namespace varve {

Cost cost(const Tensor& output, const std::vector<Tensor>& from) {
  const std::lock_guard lock(ir::graph_mutex());
  std::unordered_set<const ir::Node*> seen;
  for (const Tensor& tensor : from) seen.insert(tensor.node().get());
  std::vector<const ir::Node*> stack = {output.node().get()};
  Cost total;
  while (!stack.empty()) {
    const ir::Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second || node->inputs.empty()) continue;
    const Cost own = node->op->cost({*node->op, ir::input_types(*node), node->attrs}, node->types);
    total.flops += own.flops;
    total.bytes += own.bytes;
    for (const ir::Value& input : node->inputs) stack.push_back(input.node.get());
  }
  return total;
}

}  // namespace varve
