// Running a function once on symbols: what it read, what it assigned, what it captured.
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "runtime/compiled.h"
#include "runtime/engine.h"
#include "tensor/evaluator.h"
#include "tensor/record.h"

namespace varve::runtime {
namespace {

bool at_hand(const ir::Value& value) {
  return value.node->slots[static_cast<std::size_t>(value.index)].value() != nullptr;
}

// Values recorded before the trace began that it uses: constants of the program.
std::vector<ir::Value> captured(const std::vector<ir::Value>& outputs, std::uint64_t start) {
  std::vector<ir::Value> found;
  std::unordered_set<const ir::Node*> seen;
  std::unordered_set<ir::Value, ir::ValueHash> taken;
  std::vector<ir::NodePtr> stack;
  auto consider = [&](const ir::Value& value) {
    const bool outside = at_hand(value) || value.node->id < start;
    if (outside) {
      if (taken.insert(value).second) found.push_back(value);
    } else if (seen.insert(value.node.get()).second) {
      stack.push_back(value.node);
    }
  };
  for (const ir::Value& output : outputs) consider(output);
  while (!stack.empty()) {
    const ir::NodePtr node = stack.back();
    stack.pop_back();
    for (const ir::Value& input : node->inputs) consider(input);
  }
  return found;
}

void check_inputs(const ir::Graph& graph) {
  std::unordered_set<const ir::Node*> listed;
  for (const ir::NodePtr& input : graph.inputs) listed.insert(input.get());
  for (const ir::NodePtr& node : ir::topological(graph))
    if (node->op == &ir::input_op() && !listed.count(node.get()))
      throw Error(cat("the traced function uses a tensor (", node->attrs.text("name"), ", ", node->types[0].str(),
                      ") of another trace. Pass it as an argument instead."));
}

}  // namespace

Traced trace(const detail::ProgramFn& fn, const std::vector<TensorType>& args) {
  Traced traced;
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < args.size(); ++i) {
    traced.graph.inputs.push_back(ir::input_node(args[i], cat("argument", i)));
    arguments.emplace_back(ir::Value{traced.graph.inputs.back(), 0});
  }
  const std::uint64_t start = ir::next_id();
  std::vector<ir::Value> outputs;
  {
    Trace recording;
    for (const Tensor& result : fn(arguments)) {
      if (!result.defined()) throw Error("compile: the function returned an undefined Tensor.");
      outputs.push_back(result.value());
    }
    traced.results = outputs.size();
    for (const Trace::Use& use : recording.uses()) {
      if (use.assigned)
        traced.graph.updates.push_back(
            {static_cast<int>(traced.graph.inputs.size()), static_cast<int>(outputs.size())});
      traced.graph.inputs.push_back(use.input);
      traced.variables.push_back(use.variable);
      if (use.assigned) outputs.push_back(use.current.value());
    }
  }
  const std::vector<ir::Value> outside = captured(outputs, start);
  std::unordered_set<const ir::Node*> inputs;
  for (const ir::NodePtr& input : traced.graph.inputs) inputs.insert(input.get());
  std::vector<ir::Value> pending;
  for (const ir::Value& value : outside)
    if (!inputs.count(value.node.get()) && !at_hand(value)) pending.push_back(value);
  if (!pending.empty()) evaluate(pending);
  ir::ValueMap constants;
  for (const ir::Value& value : outside) {
    if (inputs.count(value.node.get())) continue;
    traced.graph.inputs.push_back(ir::input_node(value.type(), "constant"));
    traced.constants.push_back(value.node->slots[static_cast<std::size_t>(value.index)].value());
    if (const auto& error = traced.constants.back()->storage->error) throw Error(*error);
    constants[value] = {traced.graph.inputs.back(), 0};
  }
  traced.graph.outputs = outputs;
  // Bottom-up, so that a captured value is cut off before anything behind it is looked at.
  const ir::Graph graph = ir::replace(traced.graph, constants);
  traced.graph.outputs = graph.outputs;
  check_inputs(traced.graph);
  return traced;
}

}  // namespace varve::runtime
