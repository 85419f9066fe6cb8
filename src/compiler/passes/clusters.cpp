#include "compiler/passes/clusters.h"

#include <algorithm>

namespace varve::compiler {
namespace {

using backend::Reduce;

// What reads it must see the rounded value.
bool rounds(const ir::Node& node) {
  if (!node.is("cast")) return false;
  const DType from = node.inputs[0].type().dtype, to = node.types[0].dtype;
  if (to == boolean || from == boolean) return false;  // flags are exact in every type
  return size_of(to) < size_of(from) || is_floating(from) != is_floating(to) || (is_floating(to) && size_of(to) == 2);
}

bool reads(const ir::Node& node, const ir::Value& value) {
  return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
}

}  // namespace

Reduce reduction(const ir::Node& node) {
  if (node.is("sum")) return Reduce::sum;
  if (node.is("prod")) return Reduce::prod;
  if (node.is("max")) return Reduce::max;
  if (node.is("min")) return Reduce::min;
  return Reduce::none;
}

bool ends_group(const ir::Node& node) { return reduction(node) != Reduce::none || rounds(node); }

Clusters::Clusters(const Draft& draft) : order(ir::topological(draft.graph)) {
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i].get()] = static_cast<int>(i);
  std::unordered_set<const ir::Node*> covered;
  for (const Unit& unit : draft.units)
    for (const ir::NodePtr& node : unit.claim.nodes) covered.insert(node.get());
  of.assign(order.size(), -1);
  users.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const ir::Value& input : order[i]->inputs) users[at(input.node)].push_back(static_cast<int>(i));
    loose.push_back(!covered.count(order[i].get()) && !is_view(*order[i]) && order[i]->op != &ir::input_op());
  }
  leave_out_unread(draft);
  // A unit computes all its nodes at once: whoever reads one of its late inputs is before all its outputs.
  for (const Unit& unit : draft.units) {
    std::vector<int> members;
    for (const ir::NodePtr& node : unit.claim.nodes) members.push_back(static_cast<int>(at(node)));
    for (const int a : members)
      for (const int b : members)
        if (a != b) users[static_cast<std::size_t>(a)].push_back(b);
  }
  // Collectives wait for each other in their order, whatever they read.
  std::vector<std::pair<std::int64_t, int>> messages;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (!order[i]->op->never_batched.empty() && order[i]->attrs.has("order"))
      messages.push_back({order[i]->attrs.integer("order"), static_cast<int>(i)});
  std::stable_sort(messages.begin(), messages.end());
  for (std::size_t m = 1; m < messages.size(); ++m) {
    const int before = messages[m - 1].second, after = messages[m].second;
    users[static_cast<std::size_t>(before)].push_back(after);
    if (before > after) backward.push_back({after, before});
  }
  for (const ir::Value& output : draft.graph.outputs) outputs.insert(output);
  for (const auto& [in, out] : draft.graph.updates)
    state.insert(draft.graph.inputs[static_cast<std::size_t>(in)].get());
}

// A unit may read what a node was made from instead of the node: then perhaps nobody needs that.
void Clusters::leave_out_unread(const Draft& draft) {
  std::vector<bool> read(order.size(), false);
  for (const ir::Value& output : draft.graph.outputs) read[at(output.node)] = true;
  for (const Unit& unit : draft.units)
    for (const ir::Value& input : unit.claim.inputs) read[at(input.node)] = true;
  for (std::size_t i = order.size(); i-- > 0;) {
    if (read[i] && (loose[i] || is_view(*order[i])))
      for (const ir::Value& input : order[i]->inputs) read[at(input.node)] = true;
    loose[i] = loose[i] && read[i];
  }
}

bool Clusters::is_constant(const ir::NodePtr& node) const {
  return node->is("fill") && node->types[0].shape.rank() == 0 && loose[at(node)] && !outputs.count({node, 0});
}

std::vector<ir::Value> Clusters::inputs_of(const std::vector<int>& nodes) const {
  const std::unordered_set<int> inside(nodes.begin(), nodes.end());
  std::unordered_set<ir::Value, ir::ValueHash> seen;
  std::vector<ir::Value> inputs;
  for (const int n : nodes)
    for (const ir::Value& input : order[static_cast<std::size_t>(n)]->inputs)
      if (!inside.count(static_cast<int>(at(input.node))) && !is_constant(input.node) && seen.insert(input).second)
        inputs.push_back(input);
  return inputs;
}

Readers Clusters::readers_of(const ir::Value& value) const {
  Readers readers;
  readers.others = outputs.count(value) > 0;
  const int home = of[at(value.node)];
  std::unordered_set<int> seen;
  for (const int user : users[at(value.node)]) {
    if (!reads(*order[static_cast<std::size_t>(user)], value)) continue;
    const int reader = of[static_cast<std::size_t>(user)];
    if (reader < 0) readers.others = true;
    if (reader >= 0 && reader != home && seen.insert(reader).second) readers.clusters.push_back(reader);
  }
  return readers;
}

bool Clusters::is_stored(const ir::Value& value) const {
  if (of[at(value.node)] < 0 || reduction(*value.node) != Reduce::none || added.count(value)) return true;
  if (sunk.count(value)) return false;
  const Readers readers = readers_of(value);
  return readers.others || !readers.clusters.empty();
}

void Clusters::add_result(int cluster, const ir::NodePtr& node, std::vector<int> readers) {
  const int last = static_cast<int>(order.size());
  order.push_back(node);
  position[node.get()] = last;
  users.push_back(std::move(readers));
  loose.push_back(true);
  of.push_back(cluster);
  all[static_cast<std::size_t>(cluster)].members.push_back(last);
  added.insert({node, 0});
}

}  // namespace varve::compiler
