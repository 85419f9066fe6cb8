// Collectives of a program: gradients in buckets, everything in one chain.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "backend/collective.h"
#include "base/hash.h"
#include "base/text.h"
#include "compiler/pipeline.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve::compiler {
namespace {

// A message costs some 50 µs before its first byte, so that small gradients travel together; the wire should be busy
// soon, so the first bucket is small.
constexpr std::size_t kFirstBucket = std::size_t{1} << 20, kBucket = std::size_t{8} << 20;

bool is_in_chain(const ir::Node& node) {
  return backend::is_collective(node) && !node.is("all_sum_end") && !node.is("all_gather_end") &&
         !node.is("send_end") && !node.is("recv_end") && !node.is("exchanged");
}

bool has_collectives(const ir::Graph& graph) {
  for (const ir::NodePtr& node : ir::topological(graph))
    if (is_in_chain(*node)) return true;
  return false;
}

std::vector<ir::NodePtr> chain_of(const ir::Graph& graph) {
  std::vector<ir::NodePtr> chain;
  for (const ir::NodePtr& node : ir::topological(graph))
    if (is_in_chain(*node)) chain.push_back(node);
  std::sort(chain.begin(), chain.end(), [](const ir::NodePtr& a, const ir::NodePtr& b) {
    return a->attrs.integer("order") < b->attrs.integer("order");
  });
  return chain;
}

ir::NodePtr placed_at(const ir::Node& node, std::int64_t order) {
  Attrs attrs = node.attrs;
  attrs.set("order", order);
  const ir::NodePtr placed = ir::make_node(*node.op, node.inputs, std::move(attrs), node.types);
  placed->origin = node.origin;
  return placed;
}

bool is_gradient_sum(const ir::Node& node) {
  return node.is("all_sum") && node.attrs.has("bucket") && is_floating(node.types[0].dtype);
}

bool is_gradient_gather(const ir::Node& node) { return node.is("all_gather") && node.attrs.has("bucket"); }

bool travels_with_others(const ir::Node& node) { return is_gradient_sum(node) || is_gradient_gather(node); }

// How many times a node waits, one after the other, for what travels in buckets.
class Waits {
 public:
  explicit Waits(const ir::Graph& graph) {
    for (const ir::NodePtr& node : ir::topological(graph)) {
      int waits = 0;
      for (const ir::Value& input : node->inputs)
        waits = std::max(waits, waits_.at(input.node.get()) + (travels_with_others(*input.node) ? 1 : 0));
      waits_.emplace(node.get(), waits);
    }
  }
  int operator()(const ir::NodePtr& node) const { return waits_.at(node.get()); }

 private:
  std::unordered_map<const ir::Node*, int> waits_;
};

// One message for these sums, and where each of them then is.
void sum_together(const std::vector<ir::NodePtr>& sums, ir::ValueMap& instead) {
  static const OpRecord &begin = find_operator("all_sum_begin"), &end = find_operator("all_sum_end");
  const ir::OriginScope origin({"bucket", ""});
  std::vector<Tensor> inputs;
  for (const ir::NodePtr& sum : sums) inputs.emplace_back(sum->inputs[0]);
  const std::vector<Tensor> begun = record(begin, inputs,
                                           {{"ranks", sums[0]->attrs.integer("ranks")},
                                            {"dtype", sums[0]->types[0].dtype},
                                            {"order", sums.back()->attrs.integer("order")}});
  const Tensor all = record(end, begun)[0];
  std::int64_t at = 0;
  for (const ir::NodePtr& sum : sums) {
    const TensorType& type = sum->types[0];
    const std::int64_t count = type.shape.numel();
    instead[{sum, 0}] = (sums.size() == 1 ? all : reshape(slice(all, {{at, at + count}}), type.shape)).value();
    at += count;
  }
}

// The same of gathers, whatever their types.
void gather_together(const std::vector<ir::NodePtr>& gathers, ir::ValueMap& instead) {
  static const OpRecord &begin = find_operator("all_gather_begin"), &end = find_operator("all_gather_end");
  const ir::OriginScope origin({"bucket", ""});
  std::vector<Tensor> inputs;
  Ints counts, types;
  for (const ir::NodePtr& gather : gathers) {
    inputs.emplace_back(gather->inputs[0]);
    counts.push_back(inputs.back().numel());
    types.push_back(static_cast<std::int64_t>(inputs.back().dtype()));
  }
  const std::vector<Tensor> begun =
      record(begin, inputs,
             {{"ranks", gathers[0]->attrs.integer("ranks")}, {"order", gathers.back()->attrs.integer("order")}});
  const std::vector<Tensor> rows = record(end, begun, {{"counts", counts}, {"types", types}});
  for (std::size_t i = 0; i < gathers.size(); ++i)
    instead[{gathers[i], 0}] = reshape(rows[i], gathers[i]->types[0].shape).value();
}

// What leaves as one message, once it is full, or once somebody waits for it.
class Bucket {
 public:
  using Together = void (*)(const std::vector<ir::NodePtr>& nodes, ir::ValueMap& instead);
  Bucket(Together together, ir::ValueMap& instead) : together_(together), instead_(instead) {}

  void add(const ir::NodePtr& node, int waits) {
    // One that fills a bucket by itself need not be copied there.
    if (static_cast<std::size_t>(node->inputs[0].type().bytes()) >= kBucket) return together_({node}, instead_);
    if (!nodes_.empty() && waits != waits_) close();
    if (!nodes_.empty() && together_ == sum_together && node->types[0].dtype != nodes_[0]->types[0].dtype) close();
    waits_ = waits;
    nodes_.push_back(node);
    bytes_ += node->inputs[0].type().bytes();
    if (bytes_ >= most_) close();
  }
  // Before a node that waits so often.
  void close_before(int waits) {
    if (!nodes_.empty() && waits > waits_) close();
  }
  void close() {
    if (nodes_.empty()) return;
    together_(nodes_, instead_);
    nodes_.clear();
    bytes_ = 0;
    most_ = kBucket;
  }

 private:
  Together together_;
  ir::ValueMap& instead_;
  std::vector<ir::NodePtr> nodes_;
  std::size_t bytes_ = 0, most_ = kFirstBucket;
  int waits_ = 0;
};

ir::Graph in_buckets(const ir::Graph& graph) {
  ir::ValueMap instead;
  Bucket sums(sum_together, instead), gathers(gather_together, instead);
  const Waits waits(graph);
  for (const ir::NodePtr& node : chain_of(graph)) {
    sums.close_before(waits(node));
    gathers.close_before(waits(node));
    if (travels_with_others(*node)) (is_gradient_sum(*node) ? sums : gathers).add(node, waits(node));
  }
  sums.close();
  gathers.close();
  return instead.empty() ? graph : ir::replace(graph, instead);
}

// When the backward pass has recorded the last of what a node is made of: the node itself came later. What is made of
// other sums is ready after them, as recorded.
std::uint64_t ready_id(const ir::Node& node) {
  std::uint64_t latest = 0, leaf = 0;  // what is there from the start counts where there is nothing else
  std::unordered_set<const ir::Node*> seen;
  std::vector<const ir::Node*> open = {&node};
  while (!open.empty()) {
    const ir::Node* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    if (next != &node && next->attrs.has("bucket")) return node.id;
    if (!next->origin.gradient_of.empty())
      latest = std::max(latest, next->id);
    else if (next->inputs.empty())
      leaf = std::max(leaf, next->id);
    else
      for (const ir::Value& input : next->inputs) open.push_back(input.node.get());
  }
  return latest ? latest : leaf;
}

// A gradient's sum takes the place of the gradient.
std::uint64_t place_of(const ir::Node& node) { return node.attrs.has("bucket") ? ready_id(node) : node.id; }

}  // namespace

// By the order of recording, which is the same on every rank: literals may simplify another rank's graph further.
ir::Graph order_collectives(const ir::Graph& graph) {
  struct Recorded {
    std::uint64_t id;
    const ir::Node* node;
    bool again;  // the second time that it is gathered
  };
  std::vector<Recorded> recorded;
  const std::vector<BackwardUse> gathered = backward_uses(graph);
  for (const BackwardUse& use : gathered) recorded.push_back({use.user, use.gather, true});
  for (const ir::NodePtr& node : ir::topological(graph))
    if (is_in_chain(*node)) recorded.push_back({place_of(*node), node.get(), false});
  if (recorded.empty()) return graph;
  std::stable_sort(recorded.begin(), recorded.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  std::unordered_map<const ir::Node*, std::int64_t> order, again;
  for (std::size_t i = 0; i < recorded.size(); ++i)
    (recorded[i].again ? again : order).emplace(recorded[i].node, static_cast<std::int64_t>(i));
  return ir::rewrite(graph, [&](const ir::NodePtr& node, const ir::NodePtr& original) -> std::vector<ir::Value> {
    const auto found = order.find(original.get());
    if (found == order.end()) return {};
    const ir::NodePtr placed = placed_at(*node, found->second);
    if (const auto second = again.find(original.get()); second != again.end())
      placed->attrs.set("again", second->second);
    std::vector<ir::Value> values;
    for (int i = 0; i < static_cast<int>(placed->types.size()); ++i) values.push_back({placed, i});
    return values;
  });
}

ir::Graph bucket_gradients(const ir::Graph& graph) { return has_collectives(graph) ? in_buckets(graph) : graph; }

Exchanges exchanges_of(const ir::Graph& graph) {
  Exchanges found;
  std::string text;
  for (const ir::NodePtr& node : chain_of(graph)) {
    found.any = true;
    if (!node->attrs.has("ranks")) continue;  // between two ranks: the others know nothing of it
    Attrs attrs = node->attrs;                // its place counts messages between others too
    attrs.erase("order");
    attrs.erase("again");
    text += cat(node->op->name, "{", attrs.str(), "}");
    for (const ir::Value& input : node->inputs) text += input.type().str();
  }
  if (!text.empty()) found.hash = hash_bytes(text.data(), text.size()) | 1;
  return found;
}

}  // namespace varve::compiler
