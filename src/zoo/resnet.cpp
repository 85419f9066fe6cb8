#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

enum class Shortcut : std::uint8_t { none, project, pad };

struct Block {
  std::int64_t width = 0, stride = 1;
  bool bottleneck = false;  // 1×1, 3×3, 1×1 to four times the width; otherwise two 3×3
  Shortcut shortcut = Shortcut::none;
};

// Option A of the paper: every second pixel, and channels of zeros, half of them before and half after.
nn::Function padded_shortcut(std::int64_t stride, std::int64_t out) {
  return nn::function("pad_channels", [stride, out](const Tensor& x) {
    const std::int64_t more = out - x.dim(-1);
    return pad(x.slice({{}, {0, kEnd, stride}, {0, kEnd, stride}}),
               {{0, 0}, {0, 0}, {0, 0}, {more / 2, more - more / 2}});
  });
}

// Children named as in torchvision; the stride sits in the 3×3 (its "v1.5").
nn::Graph residual_block(const Block& b) {
  const std::int64_t out = b.bottleneck ? 4 * b.width : b.width;
  nn::Graph g;
  if (b.bottleneck) {
    step(g, "conv1", plain_conv(b.width, {.kernel = 1}), {"input"});
    step(g, "bn1", nn::batch_norm({.activation = nn::relu}));
    step(g, "conv2", plain_conv(b.width, {.stride = b.stride, .padding = 1}));
    step(g, "bn2", nn::batch_norm({.activation = nn::relu}));
    step(g, "conv3", plain_conv(out, {.kernel = 1}));
    step(g, "bn3", nn::batch_norm());
  } else {
    step(g, "conv1", plain_conv(b.width, {.stride = b.stride, .padding = 1}), {"input"});
    step(g, "bn1", nn::batch_norm({.activation = nn::relu}));
    step(g, "conv2", plain_conv(b.width, {.padding = 1}));
    step(g, "bn2", nn::batch_norm());
  }
  const std::string body = b.bottleneck ? "bn3" : "bn2";
  if (b.shortcut == Shortcut::project)
    step(g, "downsample", conv_norm({.out = out, .conv = {.kernel = 1, .stride = b.stride}, .activation = nn::linear}),
         {"input"});
  if (b.shortcut == Shortcut::pad) step(g, "downsample", padded_shortcut(b.stride, out), {"input"});
  join(g, "sum", nn::Join::add, {body, b.shortcut == Shortcut::none ? "input" : "downsample"});
  step(g, "relu", nn::activation(nn::relu));
  return g;
}

struct Stage {
  int blocks = 1;
  Block first;  // those after it have stride 1 and no shortcut
};
nn::Sequential stage(const Stage& s) {
  nn::Sequential all;
  for (int i = 0; i < s.blocks; ++i)
    all.push(residual_block(
        i == 0 ? s.first
               : Block{.width = s.first.width, .bottleneck = s.first.bottleneck, .shortcut = Shortcut::none}));
  return all;
}

nn::Layer finish(nn::Sequential all, std::int64_t classes) {
  all.push(nn::global_avg_pool2d(), "avgpool").push(nn::dense(classes), "fc");
  return nn::layer(std::move(all));
}

struct Design {
  std::vector<int> blocks;
  bool bottleneck = false;
};

Entry resnet_entry(const std::string& name, const Design& design, std::int64_t parameters) {
  return {.name = name,
          .doc = "ResNet-" + name.substr(6) + " v1, the stride in the 3×3 (He et al. 2016); named as in torchvision",
          .input = {224, 224, 3},
          .parameters = parameters,
          .smallest = {32, 32, 3},
          .sizes = {"width"},
          .make = [design](const auto& given) {
            const Sizes s(given);
            const std::int64_t width = s.whole("width", 64, 1 << 12);
            nn::Sequential all;
            all.push(plain_conv(width, {.kernel = 7, .stride = 2, .padding = 3}), "conv1");
            all.push(nn::batch_norm({.activation = nn::relu}), "bn1");
            all.push(nn::max_pool2d(3, {.stride = 2, .padding = 1}), "maxpool");
            for (std::size_t i = 0; i < design.blocks.size(); ++i) {
              const bool project = i > 0 || design.bottleneck;
              all.push(stage({design.blocks[i],
                              {.width = width << i,
                               .stride = i == 0 ? 1 : 2,
                               .bottleneck = design.bottleneck,
                               .shortcut = project ? Shortcut::project : Shortcut::none}}),
                       "layer" + std::to_string(i + 1));
            }
            return finish(std::move(all), s.classes(1000));
          }};
}

Entry cifar(const std::string& name, int blocks, std::int64_t parameters) {
  return {.name = name,
          .doc = "ResNet-" + name.substr(6) + " for CIFAR, shortcuts without parameters (He et al. 2016)",
          .input = {32, 32, 3},
          .classes = 10,
          .parameters = parameters,
          .smallest = {8, 8, 3},
          .train = R"(data = "cifar10"
mean = [0.4914, 0.4822, 0.4465]
deviation = [0.2470, 0.2435, 0.2616]
augment = [{crop = {padding = 4}}, {flip = {}}]
optimizer = {sgd = {rate = 0.2, momentum = 0.9, nesterov = true, weight_decay = 5e-4}}
schedule = {one_cycle = {}}
epochs = 10
batch = 128
validation = 0.1
)",
          .sizes = {"width"},
          .make = [blocks](const auto& given) {
            const Sizes s(given);
            const std::int64_t width = s.whole("width", 16, 1 << 12);
            nn::Sequential all;
            all.push(plain_conv(width, {.padding = 1}), "conv1");
            all.push(nn::batch_norm({.activation = nn::relu}), "bn1");
            for (int i = 0; i < 3; ++i)
              all.push(stage({blocks,
                              {.width = width << i,
                               .stride = i == 0 ? 1 : 2,
                               .shortcut = i == 0 ? Shortcut::none : Shortcut::pad}}),
                       "layer" + std::to_string(i + 1));
            return finish(std::move(all), s.classes(10));
          }};
}

}  // namespace

std::vector<Entry> resnet() {
  return {resnet_entry("resnet18", {{2, 2, 2, 2}}, 11689512),
          resnet_entry("resnet34", {{3, 4, 6, 3}}, 21797672),
          resnet_entry("resnet50", {{3, 4, 6, 3}, true}, 25557032),
          resnet_entry("resnet101", {{3, 4, 23, 3}, true}, 44549160),
          resnet_entry("resnet152", {{3, 8, 36, 3}, true}, 60192808),
          cifar("resnet20", 3, 269722),
          cifar("resnet56", 9, 853018)};
}

}  // namespace varve::zoo
