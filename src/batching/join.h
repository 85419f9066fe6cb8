// Equal calls side by side, joined: a graph recorded example by example becomes one that computes all of them at once.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/node.h"

namespace varve {

// What takes the place of the values asked for.
struct Joined {
  std::vector<ir::Value> values;
  std::size_t nodes = 0, calls = 0;  // how many calls stand for how many nodes
};

// Nothing where few calls are alike, or where joining them would change what they mean. Computed values and the nodes
// of `apart` (what a gradient is taken of) stay as they are, with all that they were computed from. Which calls are
// joined follows from the graph alone. The graph's mutex is held.
std::optional<Joined> join_equal_calls(const std::vector<ir::Value>& asked,
                                       const std::unordered_set<const ir::Node*>& apart);

}  // namespace varve
