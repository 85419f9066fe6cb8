// Nodes of the one graph: an operator, its choices, its inputs; and the value once somebody computed it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/array.h"
#include "varve/op.h"

namespace varve {
struct Pulled;
}

namespace varve::ir {

struct Graph;
struct Node;
class Lineage;
using NodePtr = std::shared_ptr<Node>;

struct Value {
  NodePtr node;
  int index = 0;

  const TensorType& type() const;
  friend bool operator==(const Value&, const Value&) = default;
};

struct ValueHash {
  std::size_t operator()(const Value& v) const {
    return std::hash<const void*>()(v.node.get()) * 31 + static_cast<std::size_t>(v.index);
  }
};

// Where a node comes from, for the profiler and for messages such as "NaN in layer 3".
struct Origin {
  std::string path;         // module path
  std::string gradient_of;  // operator whose gradient rule recorded it
  int rank = -1;            // where it is to be computed; -1: where its inputs are
};

// What the node's operator carries that is neither input nor attribute: a user's gradient, a recomputation.
using Extension = std::function<Pulled(const Vjp&)>;

// One output's value and the handles on it. Values are published once and read without a lock.
struct Slot {
  std::atomic<int> handles{0};
  std::shared_ptr<const Array> value() const { return std::atomic_load(&value_); }
  void publish(std::shared_ptr<const Array> value) { std::atomic_store(&value_, std::move(value)); }

 private:
  std::shared_ptr<const Array> value_;
};

struct Node : std::enable_shared_from_this<Node> {
  std::uint64_t id = 0;  // grows with every node made, so inputs have smaller ids
  const OpRecord* op = nullptr;
  Attrs attrs;
  std::vector<Value> inputs;
  std::vector<TensorType> types;  // of the outputs
  std::vector<std::shared_ptr<const Graph>> regions;
  Extension extension;
  Origin origin;
  bool kept = false;    // a pullback still walks through it: evaluation leaves its inputs
  bool joined = false;  // made by joining equal calls (batching/)
  int depth = 1;        // longest chain of nodes without a value that ends here
  // Marks of a walk under the graph's mutex (Visit): cheaper than a table of nodes.
  mutable std::uint64_t visited = 0;
  mutable int place = 0;
  std::unique_ptr<Slot[]> slots;
  std::weak_ptr<Node> companion;  // computed with it while somebody holds it: the loss that it is a gradient of

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();  // iterative: a chain of a million nodes does not overflow the stack

  bool is(const char* name) const { return op->name == name; }

  // The same values, computed elsewhere together with others; empty: nowhere. Read and set under the graph's mutex.
  const std::vector<Value>& stand_ins() const { return stand_ins_; }
  void set_stand_ins(std::vector<Value> values);

  // What it was computed from when its inputs are gone, or null: nothing that a gradient could be asked of.
  std::shared_ptr<const Lineage> lineage() const {
    return has_lineage_.load(std::memory_order_acquire) ? std::atomic_load(&lineage_) : nullptr;
  }
  void set_lineage(std::shared_ptr<const Lineage> lineage) {
    const bool is_one = lineage != nullptr;
    if (is_one || has_lineage_) std::atomic_store(&lineage_, std::move(lineage));
    has_lineage_.store(is_one, std::memory_order_release);
  }

 private:
  std::vector<Value> stand_ins_;  // each counts as a handle: it is computed with what needs it
  std::atomic<bool> has_lineage_{false};
  std::shared_ptr<const Lineage> lineage_;
};

// Checks nothing: shape rules have run. Sets id, slots and origin.
NodePtr make_node(const OpRecord& op, std::vector<Value> inputs, Attrs attrs, std::vector<TensorType> types);
NodePtr constant_node(std::shared_ptr<const Array> array);
NodePtr input_node(const TensorType& type, const std::string& name);
// A copy with other inputs (a pass rewriting its neighbours); types, origin and regions stay.
NodePtr with_inputs(const Node& node, std::vector<Value> inputs);

std::uint64_t next_id();  // every node made from now on has this id or a larger one

const OpRecord& input_op();     // a program's argument or variable
const OpRecord& constant_op();  // a value known already: slots[0] holds it

inline const TensorType& Value::type() const { return node->types[static_cast<std::size_t>(index)]; }
std::vector<TensorType> input_types(const Node&);

// Held while values are computed and while recorded nodes are walked: evaluation cuts a node from its inputs.
std::recursive_mutex& graph_mutex();

// One walk over nodes; the graph's mutex is held from its beginning to its end, and no two walks overlap.
class Visit {
 public:
  Visit();
  bool met(const Node& node) const { return node.visited == number_; }
  void meet(const Node& node, int place) const {
    node.visited = number_;
    node.place = place;
  }

 private:
  std::uint64_t number_;
};

// Names nodes recorded meanwhile.
class OriginScope {
 public:
  explicit OriginScope(Origin origin);
  ~OriginScope();
  static const Origin& current();

 private:
  Origin saved_;
};

}  // namespace varve::ir
