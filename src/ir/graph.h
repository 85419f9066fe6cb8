// A graph with named ends: what passes transform and programs are made from.
#pragma once

#include <iosfwd>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/node.h"

namespace varve::ir {

struct Graph {
  std::vector<NodePtr> inputs;  // input nodes, in binding order
  std::vector<Value> outputs;
  std::vector<std::pair<int, int>> updates;  // (input, output): state that the output replaces
};

using ValueMap = std::unordered_map<Value, Value, ValueHash>;

// Every node the outputs need, inputs before users; `stop` nodes (inputs, constants) included.
std::vector<NodePtr> topological(const std::vector<Value>& outputs);
std::vector<NodePtr> topological(const Graph& graph);

// Rebuilds the graph bottom-up. `rewrite` sees a node with its inputs already rewritten and returns the values that
// take the place of its outputs, or nothing to keep it.
using Rewrite = std::function<std::vector<Value>(const NodePtr& node, const NodePtr& original)>;
Graph rewrite(const Graph& graph, const Rewrite& rule);

// The graph with some values taken from elsewhere; what only they needed falls away.
Graph replace(const Graph& graph, const ValueMap& values);

// The outputs of `graph` computed from other inputs: the body is copied onto `inputs`.
std::vector<Value> inline_graph(const Graph& graph, const std::vector<Value>& inputs);

// Users of each value, in topological order.
struct Use {
  NodePtr user;
  int input;
};
std::unordered_map<Value, std::vector<Use>, ValueHash> uses(const Graph& graph);

// Throws Error, naming pass and node: inputs defined before use, types as the shape rules say, updates of equal type.
void verify(const Graph& graph, const std::string& after);
void verify(const Node& node, const std::string& after);  // one node: its inputs exist, its types follow its shape rule

std::string print(const Graph& graph);     // one line a node
std::string graphviz(const Graph& graph);  // for dot

// Equal text for graphs of equal structure: operators, attributes, types and wiring; values of inputs left out.
std::string structure(const Graph& graph);

}  // namespace varve::ir
