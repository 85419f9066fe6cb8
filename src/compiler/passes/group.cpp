// From a cluster of nodes to one expression.
#include <algorithm>

#include "compiler/passes/clusters.h"

namespace varve::compiler {
namespace {

using backend::Group;
using backend::Reduce;

std::vector<expr::Expr> results_of(const ir::Node& node, const std::vector<expr::Expr>& in) {
  if (reduction(node) != Reduce::none) return {in[0]};
  if (node.is("fill")) return {expr::Expr(node.attrs.number("value"))};
  if (node.is("cast")) {
    const bool flag = node.types[0].dtype == boolean && node.inputs[0].type().dtype != boolean;
    return {flag ? in[0] != 0 : in[0]};
  }
  std::vector<expr::Expr> results;
  for (const expr::Expr& e : node.op->exprs) results.push_back(expr::substitute(e, in));
  return results;
}

class GroupMaker {
 public:
  GroupMaker(const Clusters& clusters, const Cluster& cluster) : c_(clusters), cluster_(cluster) {
    group_.shape = cluster.shape;
    group_.compute = cluster.compute;
    group_.reduced_axes = cluster.axes;
    if (cluster.axes.empty()) group_.reduced_axes.assign(static_cast<std::size_t>(cluster.shape.rank()), false);
  }

  Group make() {
    for (const int n : needed()) add(c_.order[static_cast<std::size_t>(n)]);
    if (!group_.outputs.empty()) group_.code = expr::flatten(static_cast<int>(group_.inputs.size()), results_);
    return std::move(group_);
  }

 private:
  bool is_member(const ir::NodePtr& node) const {
    return std::binary_search(cluster_.members.begin(), cluster_.members.end(), static_cast<int>(c_.at(node)));
  }

  // Members whose results are stored, and what they are computed from here.
  std::vector<int> needed() const {
    std::unordered_set<int> inside(cluster_.members.begin(), cluster_.members.end()), seen;
    inside.insert(cluster_.copies.begin(), cluster_.copies.end());
    std::vector<int> stack;
    for (const int m : cluster_.members)
      for (int o = 0; o < static_cast<int>(c_.order[static_cast<std::size_t>(m)]->types.size()); ++o)
        if (c_.is_stored({c_.order[static_cast<std::size_t>(m)], o})) stack.push_back(m);
    while (!stack.empty()) {
      const int n = stack.back();
      stack.pop_back();
      if (!seen.insert(n).second) continue;
      for (const ir::Value& input : c_.order[static_cast<std::size_t>(n)]->inputs)
        if (inside.count(static_cast<int>(c_.at(input.node)))) stack.push_back(static_cast<int>(c_.at(input.node)));
    }
    std::vector<int> nodes(seen.begin(), seen.end());
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }

  expr::Expr read(const ir::Value& value) {
    const auto known = exprs_.find(value);
    if (known != exprs_.end()) return known->second;
    if (c_.is_constant(value.node)) return expr::Expr(value.node->attrs.number("value"));
    const expr::Expr input = expr::Expr::input(static_cast<int>(group_.inputs.size()));
    group_.inputs.push_back(value);
    exprs_.emplace(value, input);
    return input;
  }

  void add(const ir::NodePtr& node) {
    group_.nodes.push_back(node);
    std::vector<expr::Expr> in;
    for (const ir::Value& input : node->inputs) in.push_back(read(input));
    const std::vector<expr::Expr> results = results_of(*node, in);
    for (int o = 0; o < static_cast<int>(results.size()); ++o) {
      const ir::Value value{node, o};
      if (reduction(*node) == Reduce::none) exprs_.emplace(value, results[static_cast<std::size_t>(o)]);
      if (!is_member(node) || !c_.is_stored(value)) continue;
      group_.outputs.push_back(value);
      group_.reduce.push_back(reduction(*node));
      results_.push_back(results[static_cast<std::size_t>(o)]);
    }
  }

  const Clusters& c_;
  const Cluster& cluster_;
  Group group_;
  std::unordered_map<ir::Value, expr::Expr, ir::ValueHash> exprs_;
  std::vector<expr::Expr> results_;
};

}  // namespace

Group group_of(const Clusters& clusters, const Cluster& cluster) { return GroupMaker(clusters, cluster).make(); }

}  // namespace varve::compiler
