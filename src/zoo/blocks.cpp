#include "zoo/blocks.h"

namespace varve::zoo {

nn::Conv2d conv(std::int64_t out, nn::Conv2dOptions options) {
  options.weight_init = nn::init::he_normal();
  return nn::conv2d(out, std::move(options));
}

nn::Conv2d plain_conv(std::int64_t out, nn::Conv2dOptions options) {
  options.bias = false;
  return conv(out, std::move(options));
}

nn::DepthwiseConv2d plain_depthwise(nn::Conv2dOptions options) {
  options.bias = false;
  options.weight_init = nn::init::he_normal();
  return nn::depthwise_conv2d(std::move(options));
}

nn::Sequential conv_norm(const NormedConv& options) {
  return nn::sequential(plain_conv(options.out, options.conv),
                        nn::batch_norm({.epsilon = options.epsilon, .activation = options.activation}));
}

nn::Sequential basic_conv(std::int64_t out, nn::Conv2dOptions options) {
  nn::Sequential both;
  both.push(plain_conv(out, std::move(options)), "conv");
  both.push(nn::batch_norm({.epsilon = 1e-3, .activation = nn::relu}), "bn");
  return both;
}

void join(nn::Graph& graph, const std::string& name, nn::Join how, const std::vector<std::string>& from) {
  graph.add_step({.name = name, .layer = nullptr, .from = from, .join = how});
}

nn::Graph side_by_side(const std::vector<std::vector<Named>>& chains) {
  nn::Graph graph;
  std::vector<std::string> ends;
  for (const std::vector<Named>& chain : chains) {
    std::string before = "input";
    for (const auto& [name, layer] : chain) {
      step(graph, name, layer, {before});
      before = name;
    }
    ends.push_back(before);
  }
  join(graph, "concat", nn::Join::concat, ends);
  return graph;
}

}  // namespace varve::zoo
