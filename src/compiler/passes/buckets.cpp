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

bool is_in_chain(const ir::Node& node) { return backend::is_collective(node) && !node.is("all_sum_end"); }

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

DType wire_type(DType dtype) { return dtype == f64 ? f64 : f32; }

// Whether a node waits for a gradient's sum.
class WaitsForSums {
 public:
  explicit WaitsForSums(const ir::Graph& graph) {
    for (const ir::NodePtr& node : ir::topological(graph)) {
      bool waits = false;
      for (const ir::Value& input : node->inputs)
        waits = waits || is_gradient_sum(*input.node) || waiting_.at(input.node.get());
      waiting_.emplace(node.get(), waits);
    }
  }
  bool operator()(const ir::NodePtr& node) const { return waiting_.at(node.get()); }

 private:
  std::unordered_map<const ir::Node*, bool> waiting_;
};

// One message for these sums, and where each of them then is.
void add_bucket(const std::vector<ir::NodePtr>& sums, ir::ValueMap& instead) {
  static const OpRecord &begin = find_operator("all_sum_begin"), &end = find_operator("all_sum_end");
  const ir::OriginScope origin({"bucket", ""});
  std::vector<Tensor> inputs;
  for (const ir::NodePtr& sum : sums) inputs.emplace_back(sum->inputs[0]);
  const std::vector<Tensor> begun = record(begin, inputs,
                                           {{"ranks", sums[0]->attrs.integer("ranks")},
                                            {"dtype", wire_type(sums[0]->types[0].dtype)},
                                            {"order", sums.back()->attrs.integer("order")}});
  const Tensor all = record(end, begun)[0];
  std::int64_t at = 0;
  for (const ir::NodePtr& sum : sums) {
    const TensorType& type = sum->types[0];
    const std::int64_t count = type.shape.numel();
    const Tensor part = sums.size() == 1 ? all : reshape(slice(all, {{at, at + count}}), type.shape);
    instead[{sum, 0}] = (type.dtype == all.dtype() ? part : part.to(type.dtype)).value();
    at += count;
  }
}

ir::Graph in_buckets(const ir::Graph& graph) {
  ir::ValueMap instead;
  std::vector<ir::NodePtr> bucket;
  std::size_t bytes = 0, most = kFirstBucket;
  auto close = [&] {
    if (!bucket.empty()) add_bucket(bucket, instead);
    bucket.clear();
    bytes = 0;
    most = kBucket;
  };
  const WaitsForSums waits(graph);
  for (const ir::NodePtr& node : chain_of(graph)) {
    if (!is_gradient_sum(*node)) {
      if (waits(node)) close();
      continue;
    }
    if (node->types[0].bytes() >= kBucket) {  // fills one by itself, and need not be copied there
      add_bucket({node}, instead);
      continue;
    }
    if (!bucket.empty() && wire_type(node->types[0].dtype) != wire_type(bucket[0]->types[0].dtype)) close();
    bucket.push_back(node);
    bytes += node->types[0].bytes();
    if (bytes >= most) close();
  }
  close();
  return instead.empty() ? graph : ir::replace(graph, instead);
}

// When the backward pass has recorded the last of what a node is made of: the node itself came later.
std::uint64_t ready_id(const ir::Node& node) {
  std::uint64_t latest = 0;
  std::unordered_set<const ir::Node*> seen;
  std::vector<const ir::Node*> open = {&node};
  while (!open.empty()) {
    const ir::Node* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    if (!next->origin.gradient_of.empty() || next->inputs.empty())
      latest = std::max(latest, next->id);
    else
      for (const ir::Value& input : next->inputs) open.push_back(input.node.get());
  }
  return latest;
}

// A gradient's sum takes the place of the gradient, which the backward pass has recorded as it became ready.
std::uint64_t place_of(const ir::Node& node) {
  if (is_gradient_sum(node)) return node.inputs[0].node->id;
  return node.is("sum_scatter") && node.attrs.has("bucket") ? ready_id(node) : node.id;
}

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
    text += cat(node->op->name, "{", node->attrs.str(), "}");
    for (const ir::Value& input : node->inputs) text += input.type().str();
  }
  if (!text.empty()) found.hash = hash_bytes(text.data(), text.size()) | 1;
  return found;
}

}  // namespace varve::compiler
