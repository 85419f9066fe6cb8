// The fixed tree in which the shards of a batch are added: balanced and binary, over the shards' numbers. It knows no
// ranks: whoever has all shards of a subtree makes its sum, and everybody ends with the same one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "varve/tensor.h"

namespace varve::train {

// The sum of shards [index · 2^level, (index + 1) · 2^level), of those there are.
struct ShardNode {
  int level = 0;
  std::int64_t index = 0;
  auto operator<=>(const ShardNode&) const = default;
};
// Whether two neighbours make one node of the next level.
bool are_siblings(const ShardNode& left, const ShardNode& right);
ShardNode parent_of(const ShardNode& node);

struct ShardRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
// The shards that this rank computes. Error where `count` cannot be shared evenly.
ShardRange shards_of_rank(std::int64_t count, int rank, int ranks);

// The largest subtrees within a range, from left to right.
std::vector<ShardNode> roots_of(const ShardRange& range);

// The sums of all `count` shards, from those of subtrees that cover them.
using ShardValues = std::vector<Tensor>;
ShardValues sum_of_shards(std::int64_t count, const std::map<ShardNode, ShardValues>& subtrees);

}  // namespace varve::train
