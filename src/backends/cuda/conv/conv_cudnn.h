// Convolutions by cuDNN, with bias and ReLU.
#pragma once

#include "backend/backend.h"
#include "backends/cuda/conv/conv_algorithm.h"
#include "backends/cuda/cudnn/cudnn.h"
#include "base/levers.h"

namespace varve::cuda {

inline dnn::Accept accepted_for(const ConvSpec& spec) {
  return {.tensor_cores = spec.tensor_cores(), .any_order = !lever("same-bits")};
}

// The convolution as a graph, and which of its images are whose. `gpu` as for dnn::Graph.
struct DnnConvGraph {
  dnn::Graph graph;
  std::int64_t x, w, y, bias = -1;
  explicit DnnConvGraph(const ConvSpec& spec, std::shared_ptr<const dnn::Descriptor> gpu = nullptr);
};

// Plans for those that cuDNN finds to work after all, up to `most`.
std::vector<ConvAlgorithm> dnn_algorithms(const ConvSpec& spec, const DnnConvGraph& made,
                                          std::vector<dnn::Candidate> candidates, std::size_t most);

// Why cuDNN will not do it; empty: it may.
std::string dnn_refusal(const ConvSpec& spec);

// Chosen among what cuDNN offers and a product or the plain kernel where that may be faster, by measurement.
backend::Prepared prepare_dnn_conv(const ConvSpec& spec);
// Where it is still to be measured, our kernels for it begin to compile: those of a whole program side by side.
void begin_dnn_conv(const ConvSpec& spec);

}  // namespace varve::cuda
