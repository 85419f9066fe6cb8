// Pieces that several convolutional families are made of.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "varve/nn.h"

namespace varve::zoo {

// A convolution for ReLU networks: He's initial values whether the ReLU is inside the layer, after it, or behind a
// batch norm.
nn::Conv2d conv(std::int64_t out, nn::Conv2dOptions options = {});
// The same without a bias, which a batch norm after it would cancel.
nn::Conv2d plain_conv(std::int64_t out, nn::Conv2dOptions options = {});
nn::DepthwiseConv2d plain_depthwise(nn::Conv2dOptions options = {});

// Convolution, batch norm, activation. The children are "0" and "1".
struct NormedConv {
  std::int64_t out = 0;
  nn::Conv2dOptions conv = {};
  nn::Activation activation = nn::relu;
  double epsilon = 1e-5;
};
nn::Sequential conv_norm(const NormedConv& options);
// The same with children "conv" and "bn", and ε = 0.001, as the Inception family has them.
nn::Sequential basic_conv(std::int64_t out, nn::Conv2dOptions options = {.kernel = 1});

// Steps of a graph.
template <class M>
void step(nn::Graph& graph, const std::string& name, M&& module, const std::vector<std::string>& from = {}) {
  graph.add_step({.name = name, .layer = nn::layer(std::forward<M>(module)), .from = from});
}
void join(nn::Graph& graph, const std::string& name, nn::Join how, const std::vector<std::string>& from);

using Named = std::pair<std::string, nn::Layer>;
// Chains of named layers from the same input, their ends side by side.
nn::Graph side_by_side(const std::vector<std::vector<Named>>& chains);
template <class M>
Named named(const std::string& name, M&& module) {
  return {name, nn::layer(std::forward<M>(module))};
}

}  // namespace varve::zoo
