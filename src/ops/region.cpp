#include "ops/region.h"

#include "base/text.h"
#include "tensor/record.h"
#include "tensor/trace.h"
#include "varve/autodiff.h"
#include "varve/error.h"
#include "varve/ops.h"

namespace varve {
namespace {

// Exchanges values with other ranks, or keeps them on one.
bool concerns_ranks(const ir::Node& node) { return node.op->family == "collective" || node.op->family == "placed"; }

}  // namespace

Region::Region(const char* op, Invariants invariants) : op_(op), invariants_(invariants), start_(ir::next_id()) {}

std::vector<Tensor> Region::add_inputs(const std::vector<TensorType>& types, const char* name) {
  std::vector<Tensor> handles;
  for (const TensorType& type : types) {
    inputs_.push_back(ir::input_node(type, name));
    varies_.insert(inputs_.back().get());
    handles.emplace_back(ir::Value{inputs_.back(), 0});
  }
  return handles;
}

const std::vector<Tensor>& Region::record(const std::function<std::vector<Tensor>()>& function) {
  const RegionScope recording(op_);
  outputs_ = function();
  for (const Tensor& output : outputs_)
    if (!output.defined()) throw Error(cat(op_, ": its function returned an undefined Tensor."));
  return outputs_;
}

// Recorded while the function ran, and not a variable, an argument or a value at hand.
bool Region::is_new(const ir::Value& value) const {
  const ir::Node& node = *value.node;
  return node.id >= start_ && node.op != &ir::input_op() && !node.slots[static_cast<std::size_t>(value.index)].value();
}

// Other ranks may take another branch, or another number of steps: what ranks exchange has one order, fixed when the
// program is compiled.
void Region::refuse_collective(const ir::Node& node) const {
  if (!concerns_ranks(node) || (node.attrs.has("ranks") && node.attrs.integer("ranks") == 1)) return;
  throw Error(cat(op_, ": a function of it calls ", node.op->name, ", but ranks exchange values between ",
                  invariants_ == Invariants::outside ? "loops" : "branches",
                  " only, not inside them. Call it on the results, or ",
                  invariants_ == Invariants::outside ? "write the loop out step by step." : "before."));
}

// Inputs before users; what is older cannot depend on the region's inputs.
std::vector<ir::NodePtr> Region::recorded_since() const {
  std::vector<ir::NodePtr> order;
  std::unordered_set<const ir::Node*> seen;
  std::vector<std::pair<ir::NodePtr, std::size_t>> stack;
  const auto visit = [&](const ir::Value& value) {
    if (is_new(value) && seen.insert(value.node.get()).second) stack.push_back({value.node, 0});
  };
  for (const Tensor& output : outputs_) {
    visit(output.value());
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->inputs.size()) {
        visit(node->inputs[next++]);
      } else {
        order.push_back(node);
        stack.pop_back();
      }
    }
  }
  return order;
}

bool Region::is_captured(const ir::Value& value) const {
  const ir::Node& node = *value.node;
  if (varies_.count(&node) || node.is("fill")) return false;
  if (invariants_ == Invariants::outside || !is_new(value)) return true;
  return concerns_ranks(node);  // for all ranks, whichever branch they take
}

std::vector<ir::Value> Region::captured() {
  const std::vector<ir::NodePtr> order = recorded_since();
  for (const ir::NodePtr& node : order) {
    for (const ir::Value& input : node->inputs)
      if (varies_.count(input.node.get())) varies_.insert(node.get());
    if (varies_.count(node.get())) refuse_collective(*node);
  }
  std::vector<ir::Value> found;
  std::unordered_set<ir::Value, ir::ValueHash> known;
  std::unordered_set<const ir::Node*> seen;
  std::vector<ir::NodePtr> stack;
  const auto consider = [&](const ir::Value& value) {
    if (is_captured(value)) {
      if (known.insert(value).second) found.push_back(value);
    } else if (seen.insert(value.node.get()).second) {
      stack.push_back(value.node);
    }
  };
  for (const Tensor& output : outputs_) {
    consider(output.value());
    while (!stack.empty()) {
      const ir::NodePtr node = stack.back();
      stack.pop_back();
      for (const ir::Value& input : node->inputs) consider(input);
    }
  }
  return found;
}

std::shared_ptr<const ir::Graph> Region::graph(const std::vector<ir::Value>& captured) const {
  ir::Graph graph;
  graph.inputs = inputs_;
  graph.outputs = values_of(outputs_);
  ir::ValueMap replaced;
  for (const ir::Value& value : captured) {
    graph.inputs.push_back(ir::input_node(value.type(), "captured"));
    replaced[value] = {graph.inputs.back(), 0};
  }
  return std::make_shared<const ir::Graph>(ir::replace(graph, replaced));
}

std::vector<Tensor> captured_by(const std::vector<Region*>& regions) {
  std::vector<Tensor> all;
  std::unordered_set<ir::Value, ir::ValueHash> known;
  for (Region* region : regions)
    for (const ir::Value& value : region->captured())
      if (known.insert(value).second) all.emplace_back(value);
  return all;
}

std::vector<TensorType> types_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorType> types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

std::string types_text(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor& tensor : tensors) text += cat(text.empty() ? "" : ", ", tensor.type().str());
  return text.empty() ? "nothing" : text;
}

std::vector<Tensor> joined(std::vector<Tensor> a, const std::vector<Tensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Tensor> part(const std::vector<Tensor>& all, std::size_t from, std::size_t count) {
  return {all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(from + count)};
}

Tensor checked_predicate(const char* op, const Tensor& predicate) {
  if (!predicate.defined()) throw Error(cat(op, ": its predicate is an undefined Tensor."));
  if (predicate.dtype() != boolean || predicate.numel() != 1)
    throw Error(cat(op, ": its predicate must be one truth value, bool [], got ", predicate.type().str(),
                    predicate.dtype() != boolean ? ". Compare it with something: x > 0."
                                                 : ". Reduce it with all or any, or choose elementwise with where."));
  return predicate.rank() == 0 ? predicate : reshape(predicate, {});
}

std::vector<Tensor> pull(const ir::Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& seeds,
                         const std::vector<std::size_t>& wanted) {
  std::vector<Tensor> marked, ends, wrt;
  for (const Tensor& input : inputs) marked.push_back(identity(input));
  for (const Tensor& output : tensors_of(ir::inline_graph(graph, values_of(marked))))
    if (is_floating(output.dtype())) ends.push_back(output);
  for (const std::size_t i : wanted) wrt.push_back(marked[i]);
  return gradients(ends, seeds, wrt);
}

Tensor of_each(const Tensor& active, const Tensor& x) {
  Ints sizes(static_cast<std::size_t>(x.rank()), 1);
  sizes[0] = active.dim(0);
  return active.reshape(Shape(std::move(sizes)));
}

Tensor of_active(const Tensor& x, const Tensor& active) {
  if (active.dim(0) == 0) return x;
  return where(of_each(active, x), x, gather(x, argmax(active.to(i32), 0)));
}

}  // namespace varve
