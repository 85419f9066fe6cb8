// What was recorded and not computed yet: what a read makes a program of.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/fingerprint.h"
#include "ir/graph.h"

namespace varve::runtime {

// One input of a pending node.
struct PendingInput {
  enum class Kind : std::uint8_t { leaf, scalar, node } kind;
  int at;          // place among the leaves, scalars or nodes
  int output = 0;  // of the node
};

struct Pending {
  std::vector<ir::NodePtr> nodes;  // inputs before users
  std::vector<PendingInput> inputs;
  std::vector<std::size_t> first_input;  // of each node, and the end
  std::vector<ir::Value> leaves;         // values at hand, in the order of first use
  std::vector<ir::NodePtr> scalars;      // literals, given when the program runs
  std::vector<ir::Value> outputs;
  std::vector<PendingInput> output_places;  // where each is made: a node or a scalar
  bool joined = false;                      // equal calls were joined on the way here

  const PendingInput* inputs_of(std::size_t node) const { return inputs.data() + first_input[node]; }
  std::size_t input_count(std::size_t node) const { return first_input[node + 1] - first_input[node]; }
};

bool has_value(const ir::Value& value);
// Itself, or what computes it together with others.
ir::Value computed_as(ir::Value value);

// What these values need, and every other handle in it that is still held. The graph's mutex is held.
Pending pending_graph(const std::vector<ir::Value>& values);
// Equal for pending graphs that the same program computes.
ir::Fingerprint fingerprint(const Pending& pending, const std::string& device);
// The pending graph with its leaves and literals as inputs.
ir::Graph graph_of(const Pending& pending);

}  // namespace varve::runtime
