// The cost of what was recorded and has not run.
#include <mutex>
#include <unordered_set>

#include "runtime/engine.h"
#include "varve/compile.h"

namespace varve {
namespace {

Cost cost_of(const ir::Node& node) { return node.op->cost({*node.op, ir::input_types(node), node.attrs}, node.types); }

}  // namespace

namespace runtime {

// Some ten microseconds of one thread: about what a team needs to wake and meet again a few times.
bool is_tiny(const std::vector<ir::NodePtr>& nodes) {
  constexpr double kFlops = 1e5, kBytes = 128 << 10;
  Cost total;
  for (const ir::NodePtr& node : nodes) {
    if (node->inputs.empty()) continue;
    if (!node->regions.empty()) return false;  // a loop: how long is not in its cost
    const Cost own = cost_of(*node);
    total.flops += own.flops;
    total.bytes += own.bytes;
    if (total.flops > kFlops || total.bytes > kBytes) return false;
  }
  return true;
}

}  // namespace runtime

Cost cost(const Tensor& output, const std::vector<Tensor>& from) { return cost(std::vector<Tensor>{output}, from); }

Cost cost(const std::vector<Tensor>& outputs, const std::vector<Tensor>& from) {
  const std::lock_guard lock(ir::graph_mutex());
  std::unordered_set<const ir::Node*> seen;
  for (const Tensor& tensor : from) seen.insert(tensor.node().get());
  std::vector<const ir::Node*> stack;
  for (const Tensor& output : outputs) stack.push_back(output.node().get());
  Cost total;
  while (!stack.empty()) {
    const ir::Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second || node->inputs.empty()) continue;
    const Cost own = cost_of(*node);
    total.flops += own.flops;
    total.bytes += own.bytes;
    for (const ir::Value& input : node->inputs) stack.push_back(input.node.get());
  }
  return total;
}

}  // namespace varve
