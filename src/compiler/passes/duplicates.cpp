// Equal pure calls on equal inputs are one.
#include <unordered_map>

#include "base/text.h"
#include "compiler/pipeline.h"

namespace varve::compiler {

ir::Graph remove_duplicates(const ir::Graph& graph) {
  std::unordered_map<std::string, ir::NodePtr> seen;
  return ir::rewrite(graph, [&](const ir::NodePtr& node, const ir::NodePtr&) -> std::vector<ir::Value> {
    if (!node->op->pure || !node->regions.empty() || node->extension) return {};
    std::string key =
        cat(reinterpret_cast<std::uintptr_t>(node->op), "{", node->attrs.str(), "}", name(node->types[0].dtype));
    for (const ir::Value& input : node->inputs)
      key += cat(",", reinterpret_cast<std::uintptr_t>(input.node.get()), ".", input.index);
    const auto [it, fresh] = seen.emplace(std::move(key), node);
    if (fresh) return {};
    std::vector<ir::Value> values;
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) values.push_back({it->second, i});
    return values;
  });
}

}  // namespace varve::compiler
