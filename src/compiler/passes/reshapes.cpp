// What is computed element by element between two reshapes that undo each other is computed without them. A dense layer
// on a sequence is a product of matrices between two reshapes: without those around its activation, the activation's
// gradient is a matrix like the product's, and goes into one pass with the sum over its rows.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/pipeline.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve::compiler {
namespace {

constexpr int kMostDepth = 16;  // of formulas that read formulas

class Reshapes {
 public:
  explicit Reshapes(const ir::Graph& graph) : users_(ir::uses(graph)) {
    for (const ir::Value& output : graph.outputs) outputs_.insert(output);
  }

  std::vector<ir::Value> without(const ir::NodePtr& node, const ir::NodePtr& original) {
    if (node->types.size() == 1 && !outputs_.count({original, 0}))
      if (const auto found = users_.find({original, 0}); found != users_.end())
        readers_[node.get()] = found->second.size();
    if (!node->is("reshape")) return {};
    const Shape &from = node->inputs[0].type().shape, &to = node->types[0].shape;
    if (from.rank() == 0 || to.rank() == 0 || !ends_in_undone(node->inputs[0], to)) return {};
    const ir::OriginScope origin(node->origin);
    return {moved(node->inputs[0], to).value()};
  }

 private:
  static bool is_undone(const ir::Value& value, const Shape& shape) {
    return value.node->is("reshape") && value.node->inputs[0].type().shape == shape;
  }

  // Computed element by element from values of its shape and from numbers, for this reader alone.
  bool moves(const ir::Value& value) const {
    const ir::Node& node = *value.node;
    if (node.types.size() != 1 || !(node.op->elementwise() || node.is("cast"))) return false;
    const auto readers = readers_.find(&node);
    if (readers == readers_.end() || readers->second != 1) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const ir::Value& input) {
      return input.type().shape == value.type().shape || input.type().shape.rank() == 0;
    });
  }

  bool ends_in_undone(const ir::Value& value, const Shape& shape, int most = kMostDepth) const {
    return most > 0 && moves(value) &&
           std::any_of(value.node->inputs.begin(), value.node->inputs.end(), [&](const ir::Value& input) {
             return is_undone(input, shape) || ends_in_undone(input, shape, most - 1);
           });
  }

  Tensor moved(const ir::Value& value, const Shape& shape) const {
    if (value.type().shape.rank() == 0) return Tensor(value);
    if (is_undone(value, shape)) return Tensor(value.node->inputs[0]);
    if (!ends_in_undone(value, shape)) return reshape(Tensor(value), shape);
    std::vector<Tensor> inputs;
    for (const ir::Value& input : value.node->inputs) inputs.push_back(moved(input, shape));
    const ir::OriginScope origin(value.node->origin);
    return record(*value.node->op, inputs, value.node->attrs)[0];
  }

  std::unordered_map<ir::Value, std::vector<ir::Use>, ir::ValueHash> users_;  // of the graph as it was
  std::unordered_set<ir::Value, ir::ValueHash> outputs_;
  std::unordered_map<const ir::Node*, std::size_t> readers_;  // of nodes as they are now
};

}  // namespace

ir::Graph remove_reshapes(const ir::Graph& graph) {
  Reshapes reshapes(graph);
  return ir::rewrite(
      graph, [&](const ir::NodePtr& node, const ir::NodePtr& original) { return reshapes.without(node, original); });
}

}  // namespace varve::compiler
