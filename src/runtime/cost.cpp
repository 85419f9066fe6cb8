// The cost of what was recorded and has not run.
#include <mutex>
#include <unordered_set>

#include "runtime/engine.h"
#include "varve/compile.h"

namespace varve {
namespace {

Cost cost_of(const ir::Node& node);

Cost& operator+=(Cost& total, const Cost& more) {
  total.flops += more.flops;
  total.bytes += more.bytes;
  return total;
}

Cost cost_of(const ir::Graph& region) {
  Cost total;
  for (const ir::NodePtr& node : ir::topological(region.outputs))
    if (!node->inputs.empty()) total += cost_of(*node);
  return total;
}

// Of branches the dearer one; of a loop its body once for each step, where a value ends it as often as it may run, or
// once where there is no bound.
Cost cost_of_regions(const ir::Node& node) {
  const Cost first = cost_of(*node.regions[0]);
  if (node.is("cond")) {
    const Cost second = cost_of(*node.regions[1]);
    return first.flops < second.flops ? second : first;
  }
  Cost step = first;
  if (node.is("while_loop")) step += cost_of(*node.regions[1]);
  const std::int64_t bound = node.attrs.integer(node.is("while_loop") ? "max_steps" : "length");
  const auto steps = static_cast<double>(bound < 0 ? 1 : bound);
  return {step.flops * steps, step.bytes * steps};
}

Cost cost_of(const ir::Node& node) {
  return node.regions.empty() ? node.op->cost({*node.op, ir::input_types(node), node.attrs}, node.types)
                              : cost_of_regions(node);
}

}  // namespace

namespace runtime {

// Some ten microseconds of one thread: about what a team needs to wake and meet again a few times.
bool is_tiny(const std::vector<ir::NodePtr>& nodes) {
  constexpr double kFlops = 1e5, kBytes = 128 << 10;
  Cost total;
  for (const ir::NodePtr& node : nodes) {
    if (node->inputs.empty()) continue;
    if (!node->regions.empty()) return false;  // a loop: how long is not in its cost
    total += cost_of(*node);
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
    total += cost_of(*node);
    for (const ir::Value& input : node->inputs) stack.push_back(input.node.get());
  }
  return total;
}

}  // namespace varve
