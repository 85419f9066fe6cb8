#include "backends/cuda/conv/conv_cudnn.h"

namespace varve::cuda {
namespace {

cudnnBackendDescriptorType_t operation_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    case ConvPass::input_grad:
      return CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    case ConvPass::weight_grad:
      break;
  }
  return CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

}  // namespace

DnnConvGraph::DnnConvGraph(const ConvSpec& spec, std::shared_ptr<const dnn::Descriptor> gpu) : graph(std::move(gpu)) {
  const ConvShape& s = spec.call.shape;
  const ConvEpilogue& after = spec.epilogue;
  const std::array<std::int64_t, 4> result{s.batch, s.out_channels, s.out_height, s.out_width};
  x = graph.image({{s.batch, s.in_channels, s.in_height, s.in_width}, spec.dtype});
  w = graph.image({{s.out_channels, s.in_group(), s.kernel_height, s.kernel_width}, spec.dtype});
  y = graph.image({result, spec.dtype});
  const std::int64_t sums = after.empty() ? y : graph.image({result, f32, true});
  graph.convolution(operation_of(spec.call.pass), x, w, sums,
                    {.stride = {s.stride_height, s.stride_width},
                     .dilation = {s.dilation_height, s.dilation_width},
                     .pad_before = {s.pad_top, s.pad_left},
                     .pad_after = {s.pad_bottom, s.pad_right}});
  std::int64_t value = sums;
  if (after.bias) {
    bias = graph.image({{1, s.out_channels, 1, 1}, spec.dtype});
    const std::int64_t to = after.relu ? graph.image({result, f32, true}) : y;
    graph.add(value, bias, to);
    value = to;
  }
  if (after.relu) graph.relu(value, y);
}

namespace {

struct DnnRun {
  std::shared_ptr<const dnn::Plan> plan;
  ConvPass pass;
  std::int64_t x, w, y, bias;

  void operator()(const ConvOperands& at, void* workspace) const {
    const void* out = at.out;
    const bool forward = pass == ConvPass::forward, weights = pass == ConvPass::weight_grad;
    std::vector<dnn::Operand> operands{{x, forward || weights ? at.first : out},
                                       {w, weights ? out : at.second},
                                       {y, forward   ? out
                                           : weights ? at.second
                                                     : at.first}};
    if (bias >= 0) operands.push_back({bias, at.bias});
    plan->run(operands, workspace);
  }
};

}  // namespace

std::vector<ConvAlgorithm> dnn_algorithms(const ConvSpec& spec, const DnnConvGraph& made,
                                          std::vector<dnn::Candidate> candidates, std::size_t most) {
  std::vector<ConvAlgorithm> algorithms;
  for (dnn::Candidate& candidate : candidates) {
    if (algorithms.size() == most) break;
    const std::string tag = candidate.tag;
    std::optional<dnn::Plan> found = made.graph.plan(std::move(candidate), accepted_for(spec));
    if (!found) continue;
    const auto plan = std::make_shared<const dnn::Plan>(std::move(*found));
    algorithms.push_back(
        {tag, plan->workspace_bytes(), false, DnnRun{plan, spec.call.pass, made.x, made.w, made.y, made.bias}});
  }
  return algorithms;
}

}  // namespace varve::cuda
