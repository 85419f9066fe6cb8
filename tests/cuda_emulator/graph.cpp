// Graphs: a captured list of work, run in order.
#include <cstdlib>

#include "stream.h"

using namespace varve::emulator;

namespace {

// What runs when a conditional node decides may be work of this device alone.
bool can_be_instantiated(const Nodes& nodes, bool inside) {
  for (const auto& node : nodes) {
    if (inside && node->type == CU_GRAPH_NODE_TYPE_HOST) return false;
    for (const CUgraph body : node->bodies)
      if (!can_be_instantiated(body->nodes, true)) return false;
  }
  return true;
}

CUresult run(const CUgraph_st& graph) {
  for (const auto& node : graph.nodes)
    if (CUresult status = node->work(); status != CUDA_SUCCESS) return status;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext,
                                        unsigned default_value, unsigned flags) {
  if (std::getenv("VARVE_EMULATOR_REFUSES_CONDITIONS")) return CUDA_ERROR_NOT_SUPPORTED;
  if (!handle || !graph || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  auto value = std::make_shared<unsigned>(default_value);
  *handle = reinterpret_cast<CUgraphConditionalHandle>(value.get());
  graph->conditions[*handle] = std::move(value);
  return CUDA_SUCCESS;
}

// Of conditional nodes alone: the others are captured.
CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, const CUgraphEdgeData*, size_t,
                        CUgraphNodeParams* params) {
  if (!node || !graph || !params) return CUDA_ERROR_INVALID_VALUE;
  if (params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return CUDA_ERROR_NOT_SUPPORTED;
  const CUDA_CONDITIONAL_NODE_PARAMS& conditional = params->conditional;
  const auto condition = graph->conditions.find(conditional.handle);
  const bool loops = conditional.type == CU_GRAPH_COND_TYPE_WHILE;
  const unsigned most = loops ? 1 : 2;
  if (condition == graph->conditions.end() || conditional.size < 1 || conditional.size > most)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::shared_ptr<CUgraph_st>> bodies;
  auto made = std::make_shared<CUgraphNode_st>(CUgraphNode_st{params->type, {}});
  for (unsigned b = 0; b < conditional.size; ++b) {
    bodies.push_back(std::make_shared<CUgraph_st>());
    made->bodies.push_back(bodies.back().get());
  }
  made->work = [value = condition->second, bodies, loops] {
    CUresult status = CUDA_SUCCESS;
    if (loops)
      while (*value != 0 && status == CUDA_SUCCESS) status = run(*bodies[0]);
    else if (*value != 0)
      status = run(*bodies[0]);
    else if (bodies.size() > 1)
      status = run(*bodies[1]);
    return status;
  };
  graph->conditions.erase(condition);
  params->conditional.phGraph_out = made->bodies.data();
  graph->nodes.push_back(made);
  *node = made.get();
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  if (!exec || !graph || !can_be_instantiated(graph->nodes, false)) return CUDA_ERROR_INVALID_VALUE;
  *exec = new CUgraphExec_st{graph->nodes};
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& node : exec->nodes)
    if (CUresult status = submit(stream, node->type, node->work); status != CUDA_SUCCESS) return status;
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream) { return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  delete exec;
  return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
  if (!nodes) {
    *count = graph->nodes.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
  *count = std::min(*count, graph->nodes.size());
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  if (!node || !type) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}
