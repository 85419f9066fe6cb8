// Many calls as one: what batching rules are written with, and the walk that makes a recorded computation of one
// example a computation of all of them. vmap stands on it; so can whoever finds equal calls side by side.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "varve/batching.h"
#include "varve/ops.h"

namespace varve {

// By the record's rule, its formula or its decomposition; nothing when the operator has none that fits.
std::optional<std::vector<Tensor>> batched_call(const Batching& call);
// Whether that can be, looking at the record alone.
bool can_batch(const OpRecord& op);
std::string why_not_batched(const OpRecord& op);

// A value of each example along a leading axis, or one that they share.
struct Lane {
  Tensor value;
  bool batched = false;
};

// Nodes once more, for all examples. What is older than `since`, and what depends on no example, is taken as it is.
class BatchWalk {
 public:
  BatchWalk(std::int64_t size, bool fresh, std::uint64_t since) : size_(size), fresh_(fresh), since_(since) {}

  // Stands for a value of one example, the input of a region, say.
  void place(const ir::Value& value, Lane lane);
  // Throws Error, naming the operator, where one cannot be batched.
  Lane lane(const Tensor& value);
  Tensor batched(const Tensor& value);  // the same, spread over the axis where the examples share it

 private:
  bool is_walked(const ir::Node& node) const { return node.id >= since_ && !lanes_.count(&node); }
  bool draws(const ir::Node& node) const;
  void compute(const ir::NodePtr& node);

  std::int64_t size_;
  bool fresh_;
  std::uint64_t since_;
  std::unordered_map<const ir::Node*, std::vector<Lane>> lanes_;  // of each output
  std::vector<ir::NodePtr> held_;                                 // so that no address is given twice
};

// ---- for rules

TensorType type_of_one(const TensorType& all);
Tensor spread(const Tensor& x, std::int64_t size);  // [..] as [size, ..], without a copy
std::vector<Tensor> all_batched(const Batching& call);
Tensor with_axis_at(const Tensor& x, int from, int to);  // one axis moved, the others in their order
std::int64_t behind(std::int64_t axis);  // an axis of one call, in the batched tensor; negative ones stay
Attrs with_axis_behind(Attrs attrs, const std::string& key = "axis");  // a number or a list of them
Ints prefixed(const Ints& list, std::int64_t first);
Ints shape_of_all(const Batching& call, const std::string& key);  // an attribute that is a shape, for all calls

}  // namespace varve
