// Where a computed value came from, once its inputs are gone: evaluation cuts a node from its inputs, and a gradient
// that would have to flow on from there must be refused, not be zero.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/node.h"

namespace varve::ir {

// The floating-point nodes with a handle on them that a value depends on: nobody can ask for a gradient of the others.
struct Sources {
  std::vector<Node*> nodes;          // in the order of their ids, once sorted
  std::uint64_t unlisted_below = 0;  // too many to list: every node with a smaller id may be one

  bool empty() const { return nodes.empty() && !unlisted_below; }
  void add(const Sources& other);
  void sort();
};

// The same, kept with the value: nodes may be gone by now.
class Lineage {
 public:
  explicit Lineage(const Sources& from) { set(from); }
  void set(const Sources& from);
  bool may_include(const Node& node) const;
  void collect(Sources& sources, std::vector<NodePtr>& alive) const;  // those that are not gone, held meanwhile

 private:
  static constexpr std::size_t kMost = 1024;
  struct Source {
    std::uint64_t id;
    std::weak_ptr<Node> node;
  };
  std::vector<Source> listed_;  // in the order of their ids
  std::uint64_t unlisted_below_ = 0;
};

// Lineages of values that no graph shows the making of (a compiled program's results), each in the memory of one that
// is no longer used: a step allocates nothing.
class Lineages {
 public:
  void add(const NodePtr& node);          // a value at hand, with its own lineage
  std::shared_ptr<const Lineage> take();  // of all that were added since the last one; null: nothing

 private:
  Sources sources_;
  std::vector<NodePtr> alive_;
  std::vector<std::shared_ptr<Lineage>> made_;
};

// Cuts the nodes from their inputs, so that what only they held is freed. The graph's mutex is held.
void forget_inputs(const std::vector<NodePtr>& nodes);

}  // namespace varve::ir
