// Loops give only what somebody reads: the histories kept for a gradient that nobody asked for go.
#include <unordered_set>

#include "compiler/pipeline.h"

namespace varve::compiler {

ir::Graph trim_loops(const ir::Graph& graph) {
  const auto users = ir::uses(graph);
  std::unordered_set<ir::Value, ir::ValueHash> outputs(graph.outputs.begin(), graph.outputs.end());
  return ir::rewrite(graph, [&](const ir::NodePtr& node, const ir::NodePtr& original) -> std::vector<ir::Value> {
    if (node->regions.empty()) return {};
    const auto carries = static_cast<std::size_t>(node->attrs.integer("carries"));
    ir::Graph body = *node->regions[0];
    const std::vector<ir::Value> results = body.outputs;
    std::vector<TensorType> types;
    std::vector<int> place;
    body.outputs.clear();
    for (std::size_t o = 0; o < results.size(); ++o) {
      const ir::Value value{original, static_cast<int>(o)};
      const bool read = o < carries || users.count(value) || outputs.count(value);
      place.push_back(read ? static_cast<int>(types.size()) : -1);
      if (!read) continue;
      body.outputs.push_back(results[o]);
      types.push_back(node->types[o]);
    }
    if (types.size() == results.size()) return {};
    const ir::NodePtr trimmed = ir::make_node(*node->op, node->inputs, node->attrs, std::move(types));
    trimmed->origin = node->origin;
    trimmed->regions = {std::make_shared<const ir::Graph>(std::move(body))};
    std::vector<ir::Value> values;
    for (const int at : place) values.push_back({trimmed, at < 0 ? 0 : at});  // nobody reads what has no place
    return values;
  });
}

}  // namespace varve::compiler
