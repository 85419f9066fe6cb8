#include "ir/lineage.h"

#include <algorithm>
#include <unordered_map>

namespace varve::ir {
namespace {

bool has_handle(const Node& node) {
  for (std::size_t i = 0; i < node.types.size(); ++i)
    if (is_floating(node.types[i].dtype) && node.slots[i].handles.load(std::memory_order_relaxed) > 0) return true;
  return false;
}

// No gradient flows through it.
bool is_opaque(const Node& node) {
  if (!node.op->differentiable) return true;
  return std::none_of(node.types.begin(), node.types.end(), [](const TensorType& t) { return is_floating(t.dtype); });
}

// The sources of one node after another; nodes met on the way are remembered.
class Walk {
 public:
  // Of the node, itself left out. Iterative: chains are long.
  const Sources& below(Node& root) {
    std::vector<std::pair<Node*, std::size_t>> stack{{&root, 0}};
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (known_.count(node)) {
        stack.pop_back();
      } else if (next < node->inputs.size() && !is_opaque(*node)) {
        stack.push_back({node->inputs[next++].node.get(), 0});
      } else {
        known_[node] = combined(*node);
        stack.pop_back();
      }
    }
    return *known_.at(&root);
  }

 private:
  using Shared = std::shared_ptr<const Sources>;

  Shared combined(Node& node) {
    const std::shared_ptr<const Lineage> lineage = node.lineage();
    std::vector<Shared> parts;
    std::vector<Node*> named;
    if (!is_opaque(node))
      for (const Value& input : node.inputs) {
        const Shared& part = known_.at(input.node.get());
        if (!part->empty() && std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
        if (has_handle(*input.node)) named.push_back(input.node.get());
      }
    if (parts.empty() && named.empty() && !lineage) return nothing_;
    if (parts.size() == 1 && named.empty() && !lineage) return parts[0];  // a chain shares one list
    auto all = std::make_shared<Sources>();
    for (const Shared& part : parts) all->add(*part);
    for (Node* const one : named) all->nodes.push_back(one);
    if (lineage) lineage->collect(*all, alive_);
    all->sort();
    return all;
  }

  const Shared nothing_ = std::make_shared<const Sources>();
  std::unordered_map<const Node*, Shared> known_;
  std::vector<NodePtr> alive_;
};

}  // namespace

void Sources::add(const Sources& other) {
  nodes.insert(nodes.end(), other.nodes.begin(), other.nodes.end());
  unlisted_below = std::max(unlisted_below, other.unlisted_below);
}

void Sources::sort() {
  std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->id < b->id; });
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

void Lineage::set(const Sources& from) {
  unlisted_below_ = from.unlisted_below;
  listed_.clear();
  const std::size_t left_out = from.nodes.size() > kMost ? from.nodes.size() - kMost : 0;
  if (left_out) unlisted_below_ = std::max(unlisted_below_, from.nodes[left_out - 1]->id + 1);
  for (std::size_t i = left_out; i < from.nodes.size(); ++i)
    listed_.push_back({from.nodes[i]->id, from.nodes[i]->weak_from_this()});
}

bool Lineage::may_include(const Node& node) const {
  if (node.id < unlisted_below_) return true;
  const auto found = std::lower_bound(listed_.begin(), listed_.end(), node.id,
                                      [](const Source& source, std::uint64_t id) { return source.id < id; });
  return found != listed_.end() && found->id == node.id;
}

void Lineage::collect(Sources& sources, std::vector<NodePtr>& alive) const {
  sources.unlisted_below = std::max(sources.unlisted_below, unlisted_below_);
  for (const Source& source : listed_)
    if (NodePtr node = source.node.lock()) {
      sources.nodes.push_back(node.get());
      alive.push_back(std::move(node));
    }
}

void Lineages::add(const NodePtr& node) {
  if (const auto lineage = node->lineage()) lineage->collect(sources_, alive_);
  if (has_handle(*node)) sources_.nodes.push_back(node.get());
}

std::shared_ptr<const Lineage> Lineages::take() {
  if (sources_.empty()) return nullptr;
  sources_.sort();
  auto free = std::find_if(made_.begin(), made_.end(), [](const auto& lineage) { return lineage.use_count() == 1; });
  if (free == made_.end())
    free = made_.insert(made_.end(), std::make_shared<Lineage>(sources_));
  else
    (*free)->set(sources_);
  sources_.nodes.clear();
  sources_.unlisted_below = 0;
  alive_.clear();
  constexpr std::size_t kMostKept = 8;
  const std::shared_ptr<const Lineage> taken = *free;
  if (made_.size() > kMostKept) made_.erase(made_.begin());
  return taken;
}

void forget_inputs(const std::vector<NodePtr>& nodes) {
  Walk walk;
  for (const NodePtr& node : nodes) {
    const Sources& sources = walk.below(*node);
    if (!sources.empty()) node->set_lineage(std::make_shared<const Lineage>(sources));
  }
  for (const NodePtr& node : nodes) {
    node->inputs.clear();
    node->extension = nullptr;
  }
}

}  // namespace varve::ir
