#include <unordered_set>

#include "base/text.h"
#include "ir/graph.h"
#include "varve/error.h"

namespace varve::ir {
namespace {

[[noreturn]] void broken(const std::string& after, const Node& node, const std::string& what) {
  throw Error(cat("graph is broken after '", after, "': node %", node.id, " ", node.op->name, ": ", what));
}

void verify_types(const Node& node, const std::string& after) {
  if (node.op == &input_op() || node.op == &constant_op()) return;
  const std::vector<TensorType> in = input_types(node);
  std::vector<TensorType> expected;
  try {
    expected = node.op->shape({*node.op, in, node.attrs});
  } catch (const Error& error) {
    broken(after, node, error.what());
  }
  if (!node.regions.empty()) return;  // typed by their bodies, checked when they were made
  if (expected.size() != node.types.size())
    broken(after, node, cat(expected.size(), " outputs expected, has ", node.types.size()));
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (expected[i] != node.types[i])
      broken(after, node, cat("output ", i, " should be ", expected[i].str(), ", is ", node.types[i].str()));
}

}  // namespace

void verify(const Node& node, const std::string& after) {
  if (node.op->arity >= 0 && static_cast<int>(node.inputs.size()) != node.op->arity)
    broken(after, node, cat("takes ", node.op->arity, " inputs, has ", node.inputs.size()));
  for (const Value& input : node.inputs)
    if (input.index < 0 || input.index >= static_cast<int>(input.node->types.size()))
      broken(after, node,
             cat("reads output ", input.index, " of %", input.node->id, ", which has ", input.node->types.size()));
  verify_types(node, after);
}

void verify(const Graph& graph, const std::string& after) {
  std::unordered_set<const Node*> inputs;
  for (const NodePtr& input : graph.inputs) {
    if (input->op != &input_op()) broken(after, *input, "is listed as an input but is none");
    if (!inputs.insert(input.get()).second) broken(after, *input, "is listed as an input twice");
  }
  for (const NodePtr& node : topological(graph)) {
    if (node->op == &input_op() && !inputs.count(node.get()))
      broken(after, *node, "is an input that the graph does not list");
    if (node->op == &constant_op() && !node->slots[0].value()) broken(after, *node, "is a constant without a value");
    verify(*node, after);
  }
  for (const auto& [in, out] : graph.updates) {
    const TensorType& from = graph.outputs[static_cast<std::size_t>(out)].type();
    const NodePtr& to = graph.inputs[static_cast<std::size_t>(in)];
    if (from != to->types[0]) broken(after, *to, cat("is updated by a value of type ", from.str()));
  }
}

}  // namespace varve::ir
