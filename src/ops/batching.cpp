#include "ops/batching.h"

#include <algorithm>

#include "base/text.h"
#include "tensor/record.h"

namespace varve {
namespace {

// Inputs broadcast from the right: ones are put between the batch and a tensor of lower rank.
std::vector<Tensor> elementwise_of_all(const Batching& call) {
  int rank = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) rank = std::max(rank, call.in[i].rank() - (call.batched[i] ? 1 : 0));
  std::vector<Tensor> inputs = call.in;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!call.batched[i] || inputs[i].rank() == rank + 1) continue;
    Ints sizes = inputs[i].shape().vec();
    sizes.insert(sizes.begin() + 1, static_cast<std::size_t>(rank + 1 - inputs[i].rank()), 1);
    inputs[i] = inputs[i].reshape(Shape(std::move(sizes)));
  }
  return record(call.op, inputs, call.attrs);
}

std::optional<std::vector<Tensor>> decomposition_of_all(const Batching& call) {
  BatchWalk walk(call.size, call.fresh, ir::next_id());
  std::vector<Tensor> one = call.in;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (!call.batched[i]) continue;
    one[i] = Tensor(ir::Value{ir::input_node(type_of_one(call.in[i].type()), "one of a batch"), 0});
    walk.place(one[i].value(), {call.in[i], true});
  }
  std::vector<Tensor> all;
  for (const Tensor& output : call.op.decompose(one, call.attrs)) all.push_back(walk.batched(output));
  return all;
}

bool draws_numbers(const ir::Node& node) {
  if (node.op->random) return true;
  return std::any_of(node.regions.begin(), node.regions.end(), [](const auto& region) {
    const std::vector<ir::NodePtr> nodes = ir::topological(*region);
    return std::any_of(nodes.begin(), nodes.end(), [](const ir::NodePtr& inner) { return draws_numbers(*inner); });
  });
}

}  // namespace

bool can_batch(const OpRecord& op) {
  return op.never_batched.empty() && (op.batching || op.elementwise() || op.decompose);
}

std::string why_not_batched(const OpRecord& op) {
  if (!op.never_batched.empty()) return op.never_batched;
  return can_batch(op) ? "its batching rule does not know this call" : "its record has no batching rule";
}

std::optional<std::vector<Tensor>> batched_call(const Batching& call) {
  if (!call.op.never_batched.empty()) return std::nullopt;
  if (call.op.batching)
    if (auto outputs = call.op.batching(call)) return outputs;
  if (call.op.elementwise()) return elementwise_of_all(call);
  if (call.op.decompose) return decomposition_of_all(call);
  return std::nullopt;
}

void BatchWalk::place(const ir::Value& value, Lane lane) {
  std::vector<Lane>& lanes = lanes_[value.node.get()];
  lanes.resize(value.node->types.size());
  lanes[static_cast<std::size_t>(value.index)] = std::move(lane);
  held_.push_back(value.node);
}

bool BatchWalk::draws(const ir::Node& node) const { return fresh_ && draws_numbers(node); }

void BatchWalk::compute(const ir::NodePtr& node) {
  std::vector<Tensor> inputs;
  std::vector<bool> batched;
  bool any = draws(*node), changed = false;
  for (const ir::Value& input : node->inputs) {
    const auto known = lanes_.find(input.node.get());
    const Lane lane =
        known == lanes_.end() ? Lane{Tensor(input)} : known->second[static_cast<std::size_t>(input.index)];
    any = any || lane.batched;
    changed = changed || lane.value.value() != input;
    inputs.push_back(lane.value);
    batched.push_back(lane.batched);
  }
  std::vector<Lane>& lanes = lanes_[node.get()];
  held_.push_back(node);
  if (!any) {
    const ir::NodePtr same = changed ? ir::with_inputs(*node, values_of(inputs)) : node;
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) lanes.push_back({Tensor(ir::Value{same, i}), false});
    return;
  }
  const ir::OriginScope origin(node->origin);
  const auto outputs =
      batched_call({*node->op, node->attrs, std::move(inputs), std::move(batched), size_, fresh_, node.get()});
  if (!outputs)
    throw Error(cat("vmap: ", node->op->name, " cannot be called for a batch of examples: ", why_not_batched(*node->op),
                    ".\n  Call it outside the mapped function, or give its record a batching rule."));
  for (const Tensor& output : *outputs) lanes.push_back({output, true});
}

Lane BatchWalk::lane(const Tensor& value) {
  std::vector<std::pair<ir::NodePtr, std::size_t>> stack;
  if (is_walked(*value.node())) stack.push_back({value.node(), 0});
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < node->inputs.size()) {
      const ir::NodePtr& input = node->inputs[next++].node;
      if (is_walked(*input)) stack.push_back({input, 0});
      continue;
    }
    const ir::NodePtr done = node;
    stack.pop_back();
    if (is_walked(*done)) compute(done);  // not when a path beside this one met it too
  }
  const auto known = lanes_.find(value.node().get());
  return known == lanes_.end() ? Lane{value} : known->second[static_cast<std::size_t>(value.index())];
}

Tensor BatchWalk::batched(const Tensor& value) {
  const Lane found = lane(value);
  return found.batched ? found.value : spread(found.value, size_);
}

// ---- for rules

TensorType type_of_one(const TensorType& all) {
  return {all.dtype, Shape(Ints(all.shape.begin() + 1, all.shape.end()))};
}

Tensor spread(const Tensor& x, std::int64_t size) {
  return broadcast_to(expand_dims(x, 0), Shape(prefixed(x.shape().vec(), size)));
}

std::vector<Tensor> all_batched(const Batching& call) {
  std::vector<Tensor> inputs = call.in;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!call.batched[i]) inputs[i] = spread(inputs[i], call.size);
  return inputs;
}

Tensor with_axis_at(const Tensor& x, int from, int to) {
  if (from == to) return x;
  Axes order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis != from) order.push_back(axis);
  order.insert(order.begin() + to, from);
  return transpose(x, order);
}

std::int64_t behind(std::int64_t axis) { return axis < 0 ? axis : axis + 1; }

Attrs with_axis_behind(Attrs attrs, const std::string& key) {
  const Attrs before = attrs;
  for (const auto& [name, value] : before.entries()) {
    if (name != key) continue;
    if (const auto* list = value.get<Ints>()) {
      Ints axes;
      for (const std::int64_t axis : *list) axes.push_back(behind(axis));
      attrs.set(key, axes);
    } else {
      attrs.set(key, behind(attrs.integer(key)));
    }
  }
  return attrs;
}

Ints prefixed(const Ints& list, std::int64_t first) {
  Ints result{first};
  result.insert(result.end(), list.begin(), list.end());
  return result;
}

Ints shape_of_all(const Batching& call, const std::string& key) { return prefixed(call.attrs.ints(key), call.size); }

std::optional<std::vector<Tensor>> batch_leading(const Batching& call) {
  return record(call.op, all_batched(call), call.attrs);
}

std::optional<std::vector<Tensor>> batch_along_axis(const Batching& call) {
  return record(call.op, all_batched(call), with_axis_behind(call.attrs));
}

std::optional<std::vector<Tensor>> batch_one_by_one(const Batching& call) {
  std::vector<Tensor> each;
  for (std::size_t i = 0; i < call.in.size(); ++i)
    if (call.batched[i]) each.push_back(call.in[i]);
  const ScanBody body = [&](const std::vector<Tensor>&, const std::vector<Tensor>& x) {
    std::vector<Tensor> inputs = call.in;
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (call.batched[i]) inputs[i] = x[next++];
    return ScanStep{{}, record(call.op, inputs, call.attrs)};
  };
  return scan(body, {}, each, {.length = call.size}).out;
}

}  // namespace varve
