#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

// x, and beside it `growth` channels computed from it.
class DenseLayer : public nn::Sequential {
 public:
  explicit DenseLayer(std::int64_t growth) {
    push(nn::batch_norm({.activation = nn::relu}), "norm1").push(plain_conv(4 * growth, {.kernel = 1}), "conv1");
    push(nn::batch_norm({.activation = nn::relu}), "norm2").push(plain_conv(growth, {.padding = 1}), "conv2");
  }
  Tensor forward(Tensor x, Mode mode) override { return concat({x, nn::Sequential::forward(x, mode)}, -1); }
  std::string kind() const override { return "dense_layer"; }
};

nn::Layer densenet_network(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const std::int64_t growth = s.whole("growth", 32, 1 << 12);
  std::int64_t channels = 2 * growth;
  nn::Sequential features;
  features.push(plain_conv(channels, {.kernel = 7, .stride = 2, .padding = 3}), "conv0");
  features.push(nn::batch_norm({.activation = nn::relu}), "norm0");
  features.push(nn::max_pool2d(3, {.stride = 2, .padding = 1}), "pool0");
  const int layers[] = {6, 12, 24, 16};
  for (int block = 1; block <= 4; ++block) {
    nn::Sequential dense;
    for (int i = 1; i <= layers[block - 1]; ++i) dense.push(DenseLayer(growth), "denselayer" + std::to_string(i));
    features.push(std::move(dense), "denseblock" + std::to_string(block));
    channels += growth * layers[block - 1];
    if (block == 4) break;
    channels /= 2;
    nn::Sequential transition;
    transition.push(nn::batch_norm({.activation = nn::relu}), "norm");
    transition.push(plain_conv(channels, {.kernel = 1}), "conv").push(nn::avg_pool2d(2), "pool");
    features.push(std::move(transition), "transition" + std::to_string(block));
  }
  features.push(nn::batch_norm({.activation = nn::relu}), "norm5");
  nn::Sequential all;
  all.push(std::move(features), "features").push(nn::global_avg_pool2d(), "avgpool");
  all.push(nn::dense(s.classes(1000)), "classifier");
  return nn::layer(std::move(all));
}

}  // namespace

std::vector<Entry> densenet() {
  return {{.name = "densenet121",
           .doc = "DenseNet-121, growth 32 (Huang et al. 2017); children named as in torchvision",
           .input = {224, 224, 3},
           .parameters = 7978856,
           .smallest = {32, 32, 3},
           .sizes = {"growth"},
           .make = densenet_network}};
}

}  // namespace varve::zoo
