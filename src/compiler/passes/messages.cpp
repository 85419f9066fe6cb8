// This rank's part of a program whose collectives have their order: of each transfer it keeps the end that it has, and
// computes what its ends and outputs need. Messages are begun as soon as there is something to send or a place to
// receive in, and awaited as late as can be.
#include <algorithm>
#include <map>

#include "backend/collective.h"
#include "base/ranks.h"
#include "base/text.h"
#include "compiler/pipeline.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve::compiler {
namespace {

constexpr std::int64_t kTransferTag = 32767;  // send and recv of a program's own have those below

bool is_message(const ir::Node& node) { return node.is("transfer") || node.is("send") || node.is("recv"); }

}  // namespace

bool is_of_one_rank(const ir::Node& node) {
  return is_message(node) || node.is("owned") || node.is("keep") ||
         (node.is("rank_broadcast") && node.attrs.has("placed"));
}

namespace {

Tensor nothing_of(const TensorType& type) { return zeros(type.shape, type.dtype); }

class OwnPart {
 public:
  std::vector<ir::Value> rewritten(const ir::NodePtr& node) {
    if (backend::is_collective(*node) && !is_message(*node)) shared_.push_back({node, 0});
    if (!is_of_one_rank(*node)) return {};
    const ir::OriginScope origin(node->origin);
    const int here = rank_place().rank;
    if (node->is("owned")) return node->attrs.integer("rank") == here ? node->inputs : std::vector<ir::Value>{};
    if (node->is("keep")) return node->attrs.integer("rank") == here ? node->inputs : one(nothing_of(node->types[0]));
    if (node->is("rank_broadcast")) return broadcast(*node);
    if (node->is("transfer")) return transfer(*node);
    if (node->is("send")) {
      send(*node, node->inputs[0], node->attrs.integer("to"), node->attrs.integer("tag"));
      return {node->inputs[1]};
    }
    return {receive(*node, node->attrs.integer("from"), node->attrs.integer("tag")), node->inputs[0]};
  }

  // Each begins after the one before it: as an input, so that whoever merges nodes sees that there is a path.
  void chain() {
    const ir::NodePtr* before = nullptr;
    for (auto& [order, node] : begun_) {
      if (before) node->inputs.push_back({*before, 1});
      before = &node;
    }
  }

  // The smallest of the program's outputs waits for its messages, so that none is dropped; and for what all ranks do
  // together, where this one alone would not need it.
  ir::Graph with_messages(ir::Graph graph) const {
    std::vector<Tensor> awaited = tokens_;
    const std::vector<ir::NodePtr> needed = ir::topological(graph);
    for (const ir::Value& value : shared_)
      if (std::find(needed.begin(), needed.end(), value.node) == needed.end()) awaited.emplace_back(value);
    if (awaited.empty() || graph.outputs.empty()) return graph;
    static const OpRecord& exchanged = find_operator("exchanged");
    const auto smallest =
        std::min_element(graph.outputs.begin(), graph.outputs.end(),
                         [](const ir::Value& a, const ir::Value& b) { return a.type().bytes() < b.type().bytes(); });
    const ir::Value before = *smallest;
    std::vector<Tensor> inputs = {Tensor(before)};
    inputs.insert(inputs.end(), awaited.begin(), awaited.end());
    const ir::Value after = record(exchanged, inputs)[0].value();
    std::replace(graph.outputs.begin(), graph.outputs.end(), before, after);
    return graph;
  }

 private:
  static std::vector<ir::Value> one(const Tensor& tensor) { return {tensor.value()}; }

  std::vector<ir::Value> broadcast(const ir::Node& node) {
    if (node.attrs.integer("root") == rank_place().rank) return {};
    shared_.back() = record(*node.op, {nothing_of(node.types[0])}, node.attrs)[0].value();
    return {shared_.back()};
  }

  std::vector<ir::Value> transfer(const ir::Node& node) {
    const std::int64_t from = node.attrs.integer("from"), to = node.attrs.integer("to");
    const int here = rank_place().rank;
    if (from == to) return from == here ? node.inputs : one(nothing_of(node.types[0]));
    if (to == here) return {receive(node, from, kTransferTag)};
    if (from == here) send(node, node.inputs[0], to, kTransferTag);
    return one(nothing_of(node.types[0]));
  }

  void send(const ir::Node& node, const ir::Value& value, std::int64_t to, std::int64_t tag) {
    static const OpRecord &begin = find_operator("send_begin"), &end = find_operator("send_end");
    const std::int64_t order = node.attrs.integer("order");
    const std::vector<Tensor> begun = record(begin, {Tensor(value)}, {{"to", to}, {"tag", tag}, {"order", order}});
    tokens_.push_back(record(end, begun, {{"ends", order}})[0]);
    begun_.emplace(order, begun[0].node());
  }

  ir::Value receive(const ir::Node& node, std::int64_t from, std::int64_t tag) {
    static const OpRecord &begin = find_operator("recv_begin"), &end = find_operator("recv_end");
    const std::int64_t order = node.attrs.integer("order");
    const TensorType& type = node.types[0];
    const std::vector<Tensor> begun = record(
        begin, {}, {{"from", from}, {"tag", tag}, {"shape", type.shape}, {"dtype", type.dtype}, {"order", order}});
    const std::vector<Tensor> ended = record(end, begun, {{"ends", order}});
    tokens_.push_back(ended[1]);
    begun_.emplace(order, begun[0].node());
    return ended[0].value();
  }

  std::vector<Tensor> tokens_;
  std::map<std::int64_t, ir::NodePtr> begun_;  // messages, by their place in the order
  std::vector<ir::Value> shared_;              // of collectives of all ranks
};

}  // namespace

ir::Graph keep_own_part(const ir::Graph& graph) {
  const std::vector<ir::NodePtr> nodes = ir::topological(graph);
  if (rank_place().size == 1 ||
      std::none_of(nodes.begin(), nodes.end(), [](const ir::NodePtr& node) { return is_of_one_rank(*node); }))
    return graph;
  OwnPart own;
  ir::Graph part = ir::rewrite(graph, [&](const ir::NodePtr& node, const ir::NodePtr&) { return own.rewritten(node); });
  own.chain();
  return own.with_messages(std::move(part));
}

}  // namespace varve::compiler
