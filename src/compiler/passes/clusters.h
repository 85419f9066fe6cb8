// Generated groups while they are made: clusters of the nodes that no unit covers. Each becomes one kernel.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/draft.h"

namespace varve::compiler {

constexpr std::size_t kMostInputs = 16;  // pointers a group may read
constexpr std::size_t kMostNodes = 64;   // keeps tile registers in the first-level cache

backend::Reduce reduction(const ir::Node& node);
// What such a node gives is read from memory, once all of it is there: a reduction, or a conversion that loses digits.
bool ends_group(const ir::Node& node);

struct Cluster {
  std::vector<int> members;  // positions in the order
  Shape shape;
  DType compute = f32;
  std::vector<bool> axes;   // reduced ones; empty while there is no reduction
  std::vector<int> copies;  // nodes of other clusters that this one computes again instead of reading them
};

// Who reads a value from memory, once its own cluster has written it.
struct Readers {
  std::vector<int> clusters;
  bool others = false;  // kernels of the backend, or the caller
};

struct Clusters {
  explicit Clusters(const Draft& draft);

  std::size_t at(const ir::NodePtr& node) const { return static_cast<std::size_t>(position.at(node.get())); }
  // Scalars known at compile time become immediates of whoever reads them, unless a backend makes them itself.
  bool is_constant(const ir::NodePtr& node) const;
  std::vector<ir::Value> inputs_of(const std::vector<int>& nodes) const;  // what a kernel over these nodes reads
  Readers readers_of(const ir::Value& value) const;
  bool is_stored(const ir::Value& value) const;
  // One more result of a cluster, stored for these positions, which are in no cluster.
  void add_result(int cluster, const ir::NodePtr& node, std::vector<int> readers);

  void leave_out_unread(const Draft& draft);  // they are no longer loose

  std::vector<ir::NodePtr> order;
  std::unordered_map<const ir::Node*, int> position;
  std::vector<std::vector<int>> users;        // who waits for each position
  std::vector<std::pair<int, int>> backward;  // a message, and a later position that it waits for
  std::vector<bool> loose;                    // covered by no unit
  std::vector<int> of;                        // cluster of each position; -1: none
  std::vector<Cluster> all;
  std::unordered_set<ir::Value, ir::ValueHash> outputs;  // of the graph
  std::unordered_set<const ir::Node*> state;             // inputs that the graph replaces
  std::unordered_set<ir::Value, ir::ValueHash> sunk;     // kept nowhere: every cluster that reads one has a copy
  std::unordered_set<ir::Value, ir::ValueHash> added;    // results that no node of the graph is
};

// A result that is cheap to compute again is not kept in memory for groups that come later.
void sink(Clusters& clusters);
// A result of the forward pass that a kernel of the backward pass can write once more is not kept until then.
void recompute(Draft& draft, Clusters& clusters);
// The kernel-to-be: an expression over what it reads, a result for each value that is stored.
backend::Group group_of(const Clusters& clusters, const Cluster& cluster);

}  // namespace varve::compiler
