// What the CUDA backend claims of a program, without a GPU: kernels are prepared, so that their texts are collected.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "backends/cuda/backend.h"
#include "backends/cuda/device/context.h"
#include "compiler/traced.h"
#include "cuda/compiles.h"

namespace varve::cuda {

using TensorList = std::vector<Tensor>;

inline std::vector<backend::Port> contiguous_ports(const std::vector<ir::Value>& values) {
  std::vector<backend::Port> ports;
  for (const ir::Value& value : values) ports.push_back({value.type(), contiguous(value.type().shape), nullptr});
  return ports;
}

// Names of kernels, in the order of their first nodes; what nobody claims is left out.
inline std::vector<std::string> claimed(const detail::ProgramFn& fn, const std::vector<TensorType>& args,
                                        backend::Choices choices = {}) {
  const auto backend = make_cuda_backend(0, false);
  const ir::Graph graph = compiler::optimize(compiler::traced(fn, args));
  const auto users = ir::uses(graph);
  std::unordered_set<const ir::Node*> covered;
  std::vector<std::string> kernels;
  for (const ir::NodePtr& node : ir::topological(graph)) {
    if (covered.count(node.get())) continue;
    for (const backend::Claim& claim : backend->claims({graph, users, node, choices})) {
      if (!claim.accepted()) continue;
      for (const ir::NodePtr& taken : claim.nodes) covered.insert(taken.get());
      claim.prepare(contiguous_ports(claim.inputs), contiguous_ports(claim.outputs));
      kernels.push_back(claim.kernel);
      break;
    }
  }
  return kernels;
}

// Every text so far of this file, or of all files of a folder, compiles, for the oldest and the newest kind of GPU that
// we know.
inline void expect_compiles(const std::string& file) {
  if (gpu().present()) return;  // there they are compiled when they are made
  int found = 0;
  for (const KernelText& text : collected_texts()) {
    if (!text.file.starts_with(file)) continue;
    ++found;
    expect_text_compiles(text);
  }
  EXPECT_GT(found, 0) << file;
}

}  // namespace varve::cuda
