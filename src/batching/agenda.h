// Which nodes of a graph run together, and in which order.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace varve {

// The nodes between the values asked for and what is there already, with numbers for names.
struct Recorded {
  std::vector<ir::Node*> nodes;          // inputs before users; who asked holds them
  std::vector<int> inputs;               // of all nodes: the node, or -1 where it is there already
  std::vector<std::size_t> first_input;  // of each node, and the end
  std::vector<bool> moves;               // is_row_or_reshape
  std::vector<bool> inside;              // of a chain of additions: computed with the one that ends it
  struct Term {
    int node;  // or -1: there already
    ir::Value value;
  };
  std::unordered_map<int, std::vector<Term>> sums;  // of those that end a chain: all its terms
  bool can_be_joined = true;                        // false: something in it has a meaning of its own

  int number(const ir::Value& asked) const;  // of the node of a value that was asked for, or -1
  std::unordered_map<const ir::Node*, int> asked;
};
// A row of its input, or all of it in another shape: where an element lies is known, so nothing need be called.
bool is_row_or_reshape(const ir::Node& node);
// A number or a tensor that its node alone says: equal nodes are equal values.
bool is_literal(const ir::Value& value);
Recorded recorded(const std::vector<ir::Value>& asked, const std::unordered_set<const ir::Node*>& apart);

// Calls in the order they run, each of nodes that are equal but for their inputs.
using Agenda = std::vector<std::vector<int>>;
Agenda agenda(const Recorded& graph);

}  // namespace varve
