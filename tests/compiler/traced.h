// Graphs for tests of passes, recorded as compile() records them; programs of the null backend.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "ir/graph.h"
#include "runtime/compiled.h"
#include "runtime/devices.h"
#include "text_checks.h"
#include "varve/autodiff.h"
#include "varve/ops.h"

namespace varve::compiler {

using Tensors = std::vector<Tensor>;

inline ir::Graph traced(const detail::ProgramFn& fn, const std::vector<TensorType>& args) {
  return runtime::trace(fn, args).graph;
}

inline std::shared_ptr<const Plan> planned(const ir::Graph& graph, const std::string& device = "null") {
  return compile(graph, runtime::backend_named(device));
}

// Nodes of the graph that are calls of `op`.
inline std::int64_t calls(const ir::Graph& graph, const std::string& op) {
  const std::vector<ir::NodePtr> nodes = ir::topological(graph);
  return std::count_if(nodes.begin(), nodes.end(), [&](const ir::NodePtr& node) { return node->op->name == op; });
}

inline std::int64_t steps_of(const Plan& plan, const std::string& kernel) {
  return std::count_if(plan.steps.begin(), plan.steps.end(),
                       [&](const PlanStep& step) { return step.kernel.rfind(kernel, 0) == 0; });
}

using varve::test::contains;

}  // namespace varve::compiler
