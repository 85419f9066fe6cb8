// Convolutions by cuDNN, with bias and ReLU.
#pragma once

#include "backends/cuda/conv_plain.h"
#include "backends/cuda/cudnn.h"

namespace varve::cuda {

struct DnnConv {
  ConvCall call;
  DType dtype;
  ConvEpilogue epilogue;
  bool tf32 = false;

  std::string key() const;  // everything that decides how it is best computed
  dnn::Accept accept() const { return {.tensor_cores = tf32 || dtype != f32}; }
};

// The convolution as a graph, and which of its images are whose. `gpu` as for dnn::Graph.
struct DnnConvGraph {
  dnn::Graph graph;
  std::int64_t x, w, y, bias = -1;
  explicit DnnConvGraph(const DnnConv& conv, std::shared_ptr<const dnn::Descriptor> gpu = nullptr);
};

// Why cuDNN will not do it; empty: it may.
std::string refusal_of(const DnnConv& conv);

// Chosen among what cuDNN offers, by measurement. Falls back to our own kernel for operands that are not aligned.
backend::Prepared prepare_dnn_conv(const DnnConv& conv);

}  // namespace varve::cuda
