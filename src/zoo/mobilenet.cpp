#include <algorithm>

#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

// Channels by a factor, in steps of 8, and never more than a tenth below what was asked.
std::int64_t scaled(std::int64_t channels, double factor) {
  const double wanted = static_cast<double>(channels) * factor;
  const std::int64_t rounded = std::max<std::int64_t>(8, static_cast<std::int64_t>(wanted + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * wanted ? rounded + 8 : rounded;
}

nn::Sequential depthwise_norm(std::int64_t stride, const nn::Activation& activation) {
  return nn::sequential(plain_depthwise({.stride = stride, .padding = 1}), nn::batch_norm({.activation = activation}));
}

nn::Layer mobilenet1(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const double factor = s.factor("multiplier", 1);
  struct Pair {
    std::int64_t out, stride;
  };
  nn::Sequential all;
  all.push(conv_norm({.out = scaled(32, factor), .conv = {.stride = 2, .padding = 1}}));
  for (const Pair& p : std::initializer_list<Pair>{{64, 1},
                                                   {128, 2},
                                                   {128, 1},
                                                   {256, 2},
                                                   {256, 1},
                                                   {512, 2},
                                                   {512, 1},
                                                   {512, 1},
                                                   {512, 1},
                                                   {512, 1},
                                                   {512, 1},
                                                   {1024, 2},
                                                   {1024, 1}})
    all.push(depthwise_norm(p.stride, nn::relu)).push(conv_norm({.out = scaled(p.out, factor), .conv = {.kernel = 1}}));
  all.push(nn::global_avg_pool2d()).push(nn::dense(s.classes(1000)));
  return nn::layer(std::move(all));
}

// Wider by `expand` inside, a 3×3 on each channel, and back without an activation.
struct Bottleneck {
  std::int64_t in, out, stride, expand;
};
class InvertedResidual : public nn::Module {
 public:
  explicit InvertedResidual(const Bottleneck& b) : skip_(b.stride == 1 && b.in == b.out) {
    if (b.expand != 1) conv_.push(conv_norm({.out = b.in * b.expand, .conv = {.kernel = 1}, .activation = nn::relu6}));
    conv_.push(depthwise_norm(b.stride, nn::relu6));
    conv_.push(plain_conv(b.out, {.kernel = 1})).push(nn::batch_norm());
    add("conv", conv_);
  }
  Tensor forward(Tensor x, Mode mode) override { return skip_ ? x + conv_(x, mode) : conv_(x, mode); }
  std::string kind() const override { return "inverted_residual"; }

 private:
  bool skip_;
  nn::Sequential conv_;
};

nn::Layer mobilenet2(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const double factor = s.factor("multiplier", 1);
  struct Stage {
    std::int64_t expand, out, repeats, stride;
  };
  std::int64_t in = scaled(32, factor);
  nn::Sequential features;
  features.push(conv_norm({.out = in, .conv = {.stride = 2, .padding = 1}, .activation = nn::relu6}));
  for (const Stage& stage : std::initializer_list<Stage>{
           {1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}})
    for (std::int64_t i = 0; i < stage.repeats; ++i) {
      const std::int64_t out = scaled(stage.out, factor);
      features.push(InvertedResidual({in, out, i == 0 ? stage.stride : 1, stage.expand}));
      in = out;
    }
  features.push(
      conv_norm({.out = scaled(1280, std::max(1.0, factor)), .conv = {.kernel = 1}, .activation = nn::relu6}));
  nn::Sequential all;
  all.push(std::move(features), "features").push(nn::global_avg_pool2d(), "avgpool");
  all.push(nn::sequential(nn::dropout(0.2), nn::dense(s.classes(1000))), "classifier");
  return nn::layer(std::move(all));
}

}  // namespace

std::vector<Entry> mobilenet() {
  return {{.name = "mobilenet1",
           .doc = "MobileNet v1, multiplier 1 (Howard et al. 2017); the count leaves out statistics, which Keras adds",
           .input = {224, 224, 3},
           .parameters = 4231976,
           .smallest = {32, 32, 3},
           .sizes = {"multiplier"},
           .make = mobilenet1},
          {.name = "mobilenet2",
           .doc = "MobileNet v2, multiplier 1 (Sandler et al. 2018); children named as in torchvision",
           .input = {224, 224, 3},
           .parameters = 3504872,
           .smallest = {32, 32, 3},
           .sizes = {"multiplier"},
           .make = mobilenet2}};
}

}  // namespace varve::zoo
