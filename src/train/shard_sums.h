// What the shards of a batch give, added over all of them in one fixed tree, wherever they were computed.
#pragma once

#include <memory>
#include <vector>

#include "train/shard_tree.h"
#include "varve/compile.h"

namespace varve::train {

class ShardSums {
 public:
  ShardSums(std::int64_t shards, const std::vector<TensorType>& types);
  ShardSums(const ShardSums&) = delete;
  ShardSums& operator=(const ShardSums&) = delete;

  const ShardRange& own() const { return own_; }  // this rank's shards, in the order in which they are to be computed
  // Where a shard's program puts what it gives, one for each type.
  std::vector<Variable>& values() { return values_; }
  void take();    // what lies there now, as the next shard's
  void finish();  // after the last of them: then the sums of all shards of all ranks lie there, the same on every rank
  std::int64_t bytes_of_values() const;
  std::int64_t bytes_beside();  // what adding them needs, kept or for a while

 private:
  using Program = Compiled<void, 0>;

  void set_aside(std::size_t slot);  // moves the values to a slot
  void make_programs();
  std::map<ShardNode, ShardValues> own_subtrees() const;
  ShardValues sum_over_ranks() const;

  std::int64_t shards_;
  ShardRange own_;
  std::vector<ShardNode> roots_;  // of this rank's shards; the values have the last one's sum in the end
  std::vector<Variable> values_;
  std::vector<std::vector<Variable>> slots_;  // sums of finished subtrees, from left to right
  std::vector<ShardNode> waiting_;            // which these are
  std::int64_t next_;                         // shard
  std::vector<Program> folds_;                // one for each slot
  std::unique_ptr<Program> combine_;          // all ranks' subtrees; null: this rank's one root is the whole
};

}  // namespace varve::train
