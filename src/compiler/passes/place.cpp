// Nodes that are computed on one rank: what crosses from one rank to another becomes a transfer, what all ranks need a
// broadcast. Every rank makes the same whole graph of it; what a rank has no part in falls away later
// (passes/messages.cpp).
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "backend/collective.h"
#include "base/ranks.h"
#include "base/text.h"
#include "compiler/pipeline.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve::compiler {
namespace {

constexpr int kEverywhere = -1;
constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();

bool lives_on_one_rank(const ir::Node& node) { return node.is("owned") || node.is("keep"); }

bool says_where(const ir::Node& node) { return node.origin.rank >= 0 || lives_on_one_rank(node); }

// Where each node is computed: where its module is placed; else where its inputs are, on the highest of those ranks,
// which is the one that a pipeline comes to last.
class Homes {
 public:
  explicit Homes(const ir::Graph& graph) {
    for (const ir::NodePtr& node : ir::topological(graph)) homes_[node.get()] = home_of(*node);
  }
  int of(const ir::NodePtr& node) const { return homes_.at(node.get()); }

 private:
  int home_of(const ir::Node& node) const {
    if (node.inputs.empty() || backend::is_collective(node)) return kEverywhere;  // the same wherever it is made
    const int ranks = rank_place().size;
    const int said = lives_on_one_rank(node) ? static_cast<int>(node.attrs.integer("rank")) : node.origin.rank;
    if (said >= ranks)
      throw Error(cat("'", node.origin.path, "' is placed on rank ", said, ", but there are ", ranks,
                      " ranks. Start more of them, or place it on one of 0 to ", ranks - 1, "."));
    if (said >= 0) return said;
    int home = kEverywhere;
    for (const ir::Value& input : node.inputs) home = std::max(home, homes_.at(input.node.get()));
    return home;
  }

  std::unordered_map<const ir::Node*, int> homes_;
};

class Crossings {
 public:
  explicit Crossings(const Homes& homes) : homes_(homes) {}

  // The node, its inputs brought to where it is computed. Copies keep the number of the node they stand for: the order
  // of recording is the order in which values travel.
  std::vector<ir::Value> rewritten(const ir::NodePtr& node, const ir::NodePtr& original) {
    const int home = homes_.of(original);
    std::vector<ir::Value> inputs = node->inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = brought(inputs[i], original->inputs[i], home);
    if (inputs == original->inputs) return {};
    const ir::NodePtr copy = ir::with_inputs(*node, std::move(inputs));
    copy->id = original->id;
    std::vector<ir::Value> values;
    for (int i = 0; i < static_cast<int>(copy->types.size()); ++i) values.push_back({copy, i});
    return values;
  }

  // On every rank, after everything else.
  ir::Value given(const ir::Value& now, const ir::Value& original) {
    const int from = homes_.of(original.node);
    if (from == kEverywhere || original.node->is("keep")) return now;
    return broadcast(now, from, kLast);
  }

 private:
  ir::Value brought(const ir::Value& now, const ir::Value& original, int home) {
    const int from = homes_.of(original.node);
    if (from == kEverywhere || from == home) return now;
    auto& known = crossed_[{original, home}];
    if (!known.node)
      known =
          home == kEverywhere ? broadcast(now, from, original.node->id) : transfer(now, from, home, original.node->id);
    return known;
  }

  static ir::Value with_id(const Tensor& made, std::uint64_t id) {
    made.node()->id = id;
    return made.value();
  }
  static ir::Value broadcast(const ir::Value& value, int from, std::uint64_t id) {
    static const OpRecord& op = find_operator("rank_broadcast");
    return with_id(record(op, {Tensor(value)}, {{"ranks", rank_place().size}, {"root", from}, {"placed", true}})[0],
                   id);
  }
  static ir::Value transfer(const ir::Value& value, int from, int to, std::uint64_t id) {
    static const OpRecord& op = find_operator("transfer");
    return with_id(record(op, {Tensor(value)}, {{"ranks", rank_place().size}, {"from", from}, {"to", to}})[0], id);
  }

  struct Crossing {
    ir::Value value;
    int to;
    bool operator==(const Crossing&) const = default;
  };
  struct CrossingHash {
    std::size_t operator()(const Crossing& c) const {
      return ir::ValueHash()(c.value) * 31 + static_cast<std::size_t>(c.to + 1);
    }
  };
  const Homes& homes_;
  std::unordered_map<Crossing, ir::Value, CrossingHash> crossed_;
};

}  // namespace

ir::Graph place(const ir::Graph& graph) {
  if (rank_place().size == 1) return graph;
  const std::vector<ir::NodePtr> nodes = ir::topological(graph);
  if (std::none_of(nodes.begin(), nodes.end(), [](const ir::NodePtr& node) { return says_where(*node); })) return graph;
  const Homes homes(graph);
  Crossings crossings(homes);
  ir::Graph placed = ir::rewrite(
      graph, [&](const ir::NodePtr& node, const ir::NodePtr& original) { return crossings.rewritten(node, original); });
  for (std::size_t o = 0; o < placed.outputs.size(); ++o)
    placed.outputs[o] = crossings.given(placed.outputs[o], graph.outputs[o]);
  return placed;
}

}  // namespace varve::compiler
