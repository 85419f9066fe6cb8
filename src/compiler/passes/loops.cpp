// Loops and branches give only what somebody reads: the histories kept for a gradient that nobody asked for go.
#include <unordered_set>

#include "compiler/pipeline.h"

namespace varve::compiler {
namespace {

// Which of a node's outputs stay, and the node without the others.
struct Trimmed {
  std::vector<bool> stays;
  std::vector<std::shared_ptr<const ir::Graph>> regions;
  Attrs attrs;
};

ir::Graph with_outputs(const ir::Graph& region, const std::vector<bool>& stays) {
  ir::Graph trimmed = region;
  trimmed.outputs.clear();
  for (std::size_t o = 0; o < region.outputs.size(); ++o)
    if (stays[o]) trimmed.outputs.push_back(region.outputs[o]);
  return trimmed;
}

// Every region gives the node's outputs one by one.
void trim_regions(Trimmed& trimmed) {
  for (auto& region : trimmed.regions) region = std::make_shared<const ir::Graph>(with_outputs(*region, trimmed.stays));
}

// After carries and the number of steps, the carries that are kept.
void trim_kept(const ir::Node& node, std::size_t carries, Trimmed& trimmed) {
  if (!node.attrs.has("kept")) return;
  const Ints& kept = node.attrs.ints("kept");
  Ints still;
  for (std::size_t k = 0; k < kept.size(); ++k)
    if (trimmed.stays[carries + 1 + k]) still.push_back(kept[k]);
  trimmed.attrs.set("kept", still);
}

std::size_t always_there(const ir::Node& node) {
  if (node.is("cond")) return 0;
  const auto carries = static_cast<std::size_t>(node.attrs.integer("carries"));
  return node.is("while_loop") ? carries + 1 : carries;
}

}  // namespace

ir::Graph trim_loops(const ir::Graph& graph) {
  const auto users = ir::uses(graph);
  std::unordered_set<ir::Value, ir::ValueHash> outputs(graph.outputs.begin(), graph.outputs.end());
  return ir::rewrite(graph, [&](const ir::NodePtr& node, const ir::NodePtr& original) -> std::vector<ir::Value> {
    if (node->regions.empty()) return {};
    Trimmed trimmed{{}, node->regions, node->attrs};
    std::vector<TensorType> types;
    std::vector<int> place;
    for (std::size_t o = 0; o < node->types.size(); ++o) {
      const ir::Value value{original, static_cast<int>(o)};
      trimmed.stays.push_back(o < always_there(*node) || users.count(value) || outputs.count(value));
      place.push_back(trimmed.stays[o] ? static_cast<int>(types.size()) : -1);
      if (trimmed.stays[o]) types.push_back(node->types[o]);
    }
    if (types.size() == node->types.size()) return {};
    if (node->is("while_loop"))
      trim_kept(*node, always_there(*node) - 1, trimmed);
    else
      trim_regions(trimmed);
    const ir::NodePtr small = ir::make_node(*node->op, node->inputs, trimmed.attrs, std::move(types));
    small->origin = node->origin;
    small->regions = std::move(trimmed.regions);
    std::vector<ir::Value> values;
    for (const int at : place) values.push_back({small, at < 0 ? 0 : at});  // nobody reads what has no place
    return values;
  });
}

}  // namespace varve::compiler
