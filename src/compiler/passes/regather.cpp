// Sharded parameters: what the forward pass has gathered is let go, and gathered again where the backward pass needs
// it, so that no more than a few layers are whole at a time.
#include <algorithm>
#include <unordered_map>

#include "compiler/pipeline.h"

namespace varve::compiler {
namespace {

bool is_gathered_again(const ir::Node& node) { return node.is("all_gather") && node.attrs.has("again"); }

bool is_backward(const ir::Node& node) { return !node.origin.gradient_of.empty(); }

// Cuts off the padding, and gives the shape.
bool is_view(const ir::Node& node) { return node.is("slice") || node.is("reshape") || node.is("identity"); }

// Gathers, and the views of them that the forward pass has made: of which gather each is.
using Gathered = std::unordered_map<const ir::Node*, const ir::Node*>;

Gathered gathered_in(const ir::Graph& graph) {
  Gathered found;
  for (const ir::NodePtr& node : ir::topological(graph)) {
    if (is_gathered_again(*node)) {
      found[node.get()] = node.get();
    } else if (is_view(*node) && !is_backward(*node)) {
      const auto of = found.find(node->inputs[0].node.get());
      if (of != found.end()) found.emplace(node.get(), of->second);
    }
  }
  return found;
}

class Regather {
 public:
  explicit Regather(const ir::Graph& graph) : gathered_(gathered_in(graph)) {}
  bool any() const { return !gathered_.empty(); }

  std::vector<ir::Value> rewritten(const ir::NodePtr& node, const ir::NodePtr& original) {
    if (!is_backward(*original)) return {};
    std::vector<ir::Value> inputs = node->inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (gathered_.count(original->inputs[i].node.get())) inputs[i] = {again(inputs[i].node), inputs[i].index};
    if (inputs == node->inputs) return {};
    const ir::NodePtr moved = copy(*node, std::move(inputs), node->attrs);
    std::vector<ir::Value> values;
    for (int i = 0; i < static_cast<int>(moved->types.size()); ++i) values.push_back({moved, i});
    return values;
  }

 private:
  static ir::NodePtr copy(const ir::Node& node, std::vector<ir::Value> inputs, Attrs attrs) {
    ir::NodePtr made = ir::make_node(*node.op, std::move(inputs), std::move(attrs), node.types);
    made->origin = node.origin;
    return made;
  }

  // The same views of a gather of its own, in its own place of the chain.
  ir::NodePtr again(const ir::NodePtr& node) {
    if (const auto found = copies_.find(node.get()); found != copies_.end()) return found->second;
    ir::NodePtr made;
    if (is_gathered_again(*node)) {
      Attrs attrs = node->attrs;
      attrs.set("order", node->attrs.integer("again"));
      made = copy(*node, node->inputs, std::move(attrs));
    } else {
      made = copy(*node, {{again(node->inputs[0].node), node->inputs[0].index}}, node->attrs);
    }
    return copies_.emplace(node.get(), made).first->second;
  }

  Gathered gathered_;
  std::unordered_map<const ir::Node*, ir::NodePtr> copies_;
};

}  // namespace

std::vector<BackwardUse> backward_uses(const ir::Graph& graph) {
  const Gathered gathered = gathered_in(graph);
  std::vector<BackwardUse> first;
  if (gathered.empty()) return first;
  for (const ir::NodePtr& node : ir::topological(graph)) {
    if (!is_backward(*node)) continue;
    for (const ir::Value& input : node->inputs) {
      const auto found = gathered.find(input.node.get());
      if (found == gathered.end()) continue;
      const auto known =
          std::find_if(first.begin(), first.end(), [&](const auto& u) { return u.gather == found->second; });
      if (known == first.end())
        first.push_back({found->second, node->id});
      else
        known->user = std::min(known->user, node->id);
    }
  }
  return first;
}

ir::Graph regather(const ir::Graph& graph) {
  Regather pass(graph);
  if (!pass.any()) return graph;
  return ir::rewrite(
      graph, [&](const ir::NodePtr& node, const ir::NodePtr& original) { return pass.rewritten(node, original); });
}

}  // namespace varve::compiler
