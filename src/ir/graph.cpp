#include "ir/graph.h"

#include <algorithm>
#include <unordered_set>

namespace varve::ir {

std::vector<NodePtr> topological(const std::vector<Value>& outputs) {
  std::vector<NodePtr> order;
  std::unordered_set<const Node*> seen;
  std::vector<std::pair<NodePtr, std::size_t>> stack;  // node, next input to visit
  for (const Value& output : outputs) {
    if (!seen.insert(output.node.get()).second) continue;
    stack.push_back({output.node, 0});
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->inputs.size()) {
        const NodePtr& input = node->inputs[next++].node;
        if (seen.insert(input.get()).second) stack.push_back({input, 0});
      } else {
        order.push_back(node);
        stack.pop_back();
      }
    }
  }
  return order;
}

std::vector<NodePtr> topological(const Graph& graph) {
  std::vector<NodePtr> order = topological(graph.outputs);
  // Inputs nobody reads still have a place in the binding order.
  std::unordered_set<const Node*> seen;
  for (const NodePtr& node : order) seen.insert(node.get());
  std::vector<NodePtr> unread;
  for (const NodePtr& input : graph.inputs)
    if (seen.insert(input.get()).second) unread.push_back(input);
  order.insert(order.begin(), unread.begin(), unread.end());
  return order;
}

Graph rewrite(const Graph& graph, const Rewrite& rule) {
  ValueMap map;
  auto mapped = [&](const Value& v) {
    const auto it = map.find(v);
    return it == map.end() ? v : it->second;
  };
  for (const NodePtr& node : topological(graph)) {
    std::vector<Value> inputs;
    inputs.reserve(node->inputs.size());
    for (const Value& input : node->inputs) inputs.push_back(mapped(input));
    const NodePtr current = inputs == node->inputs ? node : with_inputs(*node, std::move(inputs));
    std::vector<Value> replacement = rule(current, node);
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) {
      Value to = replacement.empty() ? Value{current, i} : replacement[static_cast<std::size_t>(i)];
      if (to.node != node || to.index != i) map[{node, i}] = std::move(to);
    }
  }
  Graph result{graph.inputs, {}, graph.updates};
  for (const Value& output : graph.outputs) result.outputs.push_back(mapped(output));
  return result;
}

Graph replace(const Graph& graph, const ValueMap& values) {
  if (values.empty()) return graph;
  return rewrite(graph, [&](const NodePtr& node, const NodePtr& original) -> std::vector<Value> {
    std::vector<Value> outputs;
    bool changed = false;
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) {
      const auto it = values.find({original, i});
      changed = changed || it != values.end();
      outputs.push_back(it == values.end() ? Value{node, i} : it->second);
    }
    return changed ? outputs : std::vector<Value>();
  });
}

std::vector<Value> inline_graph(const Graph& graph, const std::vector<Value>& inputs) {
  std::unordered_map<const Node*, std::size_t> place;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) place[graph.inputs[i].get()] = i;
  return rewrite(graph,
                 [&](const NodePtr&, const NodePtr& original) -> std::vector<Value> {
                   const auto it = place.find(original.get());
                   if (it != place.end()) return {inputs[it->second]};
                   return {};
                 })
      .outputs;
}

std::unordered_map<Value, std::vector<Use>, ValueHash> uses(const Graph& graph) {
  std::unordered_map<Value, std::vector<Use>, ValueHash> users;
  for (const NodePtr& node : topological(graph))
    for (std::size_t i = 0; i < node->inputs.size(); ++i) users[node->inputs[i]].push_back({node, static_cast<int>(i)});
  return users;
}

}  // namespace varve::ir
