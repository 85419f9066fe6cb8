#include "cli/op_facts.h"

#include "backend/backend.h"
#include "cli/op_samples.h"
#include "compiler/pipeline.h"
#include "ir/graph.h"
#include "runtime/devices.h"
#include "varve/ops.h"

namespace varve::cli {
namespace {

// The node alone, on inputs of its own.
ir::Graph alone(const ir::Node& node) {
  ir::Graph graph;
  std::vector<ir::Value> inputs;
  for (const ir::Value& input : node.inputs) {
    graph.inputs.push_back(ir::input_node(input.type(), "x"));
    inputs.push_back({graph.inputs.back(), 0});
  }
  const ir::NodePtr copy = ir::with_inputs(node, inputs);
  for (int i = 0; i < static_cast<int>(node.types.size()); ++i) graph.outputs.push_back({copy, i});
  return graph;
}

bool has_kernel(const backend::Backend& backend, const ir::Node& node) {
  const ir::Graph graph = alone(node);
  const auto users = ir::uses(graph);
  for (const backend::Claim& claim : backend.claims({graph, users, graph.outputs[0].node}))
    if (claim.accepted()) return true;
  return false;
}

// One generated kernel that computes just this node.
bool fuses(const backend::Backend& backend, const ir::Node& node) {
  if (!backend.fuses()) return false;
  try {
    const auto plan = compiler::compile(alone(node), backend);
    return plan->steps.size() == 1 && plan->steps[0].op == node.op->name;
  } catch (const Error&) {
    return false;  // refused by all: that is the answer
  }
}

std::string how_it_runs(const backend::Backend& backend, const OpRecord& op, const ir::Node* sample) {
  if (op.arity == 0 && !sample) return "-";
  if (&op == &ir::input_op() || &op == &ir::constant_op()) return "input";
  if (op.view) return "view";
  if (sample && !sample->regions.empty()) return "loop";
  if (sample && has_kernel(backend, *sample)) return "kernel";
  if (sample && fuses(backend, *sample)) return "fused";
  if (sample && compiler::is_of_one_rank(*sample)) return "decomposed";
  return op.decompose || op.elementwise() ? "decomposed" : "-";
}

std::string gradient_of(const OpRecord& op) {
  if (!op.differentiable) return "none";
  if (op.gradient) return "own";
  return op.elementwise() ? "formula" : op.decompose ? "decomposition" : "none";
}

std::string batching_of(const OpRecord& op) {
  if (op.arity == 0) return "-";
  if (!op.never_batched.empty()) return "refused";
  if (op.batching) return "own";
  return op.elementwise() ? "formula" : op.decompose ? "decomposition" : "none";
}

// Those that the shape rule accepts in place of f32.
std::vector<DType> accepted_types(const OpRecord& op, const ir::Node& sample) {
  std::vector<DType> types;
  for (const DType dtype : kAllDTypes) {
    std::vector<TensorType> in = ir::input_types(sample);
    for (TensorType& type : in)
      if (type.dtype == f32) type.dtype = dtype;
    try {
      if (sample.regions.empty()) op.shape({op, in, sample.attrs});
      types.push_back(dtype);
    } catch (const Error&) {
      // Not this one: that is the answer.
    }
  }
  return types;
}

}  // namespace

std::vector<OpFacts> op_facts(const std::vector<const OpRecord*>& records) {
  const auto samples = op_samples();
  std::vector<OpFacts> all;
  for (const OpRecord* op : records) {
    const auto found = samples.find(op);
    const ir::Node* sample = found == samples.end() ? nullptr : found->second.get();
    OpFacts facts{.record = op, .gradient = gradient_of(*op), .batching = batching_of(*op)};
    if (op->elementwise()) facts.formula = expr::print(op->exprs[0]);
    if (sample) facts.types = accepted_types(*op, *sample);
    for (const std::string& name : runtime::backend_names()) {
      if (name == "null") continue;  // compiles everything, runs nothing
      facts.runs.emplace_back(name, how_it_runs(runtime::backend_named(name), *op, sample));
    }
    all.push_back(std::move(facts));
  }
  return all;
}

}  // namespace varve::cli
