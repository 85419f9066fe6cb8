#include "train/shard_tree.h"

#include <string>

#include "varve/error.h"
#include "varve/ops.h"

namespace varve::train {
namespace {

ShardValues sum_under(const ShardNode& node, std::int64_t count, const std::map<ShardNode, ShardValues>& subtrees) {
  if (node.index << node.level >= count) return {};
  if (const auto made = subtrees.find(node); made != subtrees.end()) return made->second;
  if (node.level == 0) throw Error("shards: nobody has shard " + std::to_string(node.index) + ".");
  ShardValues left = sum_under({node.level - 1, 2 * node.index}, count, subtrees);
  const ShardValues right = sum_under({node.level - 1, 2 * node.index + 1}, count, subtrees);
  for (std::size_t i = 0; i < right.size(); ++i) left[i] = left[i] + right[i];
  return left;
}

}  // namespace

bool are_siblings(const ShardNode& left, const ShardNode& right) {
  return left.level == right.level && left.index % 2 == 0 && right.index == left.index + 1;
}

ShardNode parent_of(const ShardNode& node) { return {node.level + 1, node.index / 2}; }

ShardRange shards_of_rank(std::int64_t count, int rank, int ranks) {
  if (count % ranks != 0)
    throw Error("parallel: " + std::to_string(count) + " shards cannot be shared evenly by " + std::to_string(ranks) +
                " ranks. Start a number of ranks that divides them, or set another number of shards.");
  const std::int64_t each = count / ranks;
  return {rank * each, (rank + 1) * each};
}

std::vector<ShardNode> roots_of(const ShardRange& range) {
  std::vector<ShardNode> roots;
  for (std::int64_t shard = range.begin; shard < range.end; ++shard) {
    ShardNode node{0, shard};
    for (; !roots.empty() && are_siblings(roots.back(), node); roots.pop_back()) node = parent_of(node);
    roots.push_back(node);
  }
  return roots;
}

ShardValues sum_of_shards(std::int64_t count, const std::map<ShardNode, ShardValues>& subtrees) {
  ShardNode top;
  while (std::int64_t{1} << top.level < count) ++top.level;
  return sum_under(top, count, subtrees);
}

}  // namespace varve::train
