#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

nn::Activate relu_layer() { return nn::activation(nn::relu); }

// ---- version 1: grouped 1×1 convolutions, channels shuffled between them

struct Unit {
  std::int64_t in, out, groups;
  bool halve;  // stride 2, and a pool of the input beside it; otherwise the input is added
};

nn::Graph unit1(const Unit& u, bool first) {
  const std::int64_t between = u.out / 4;
  nn::Graph g;
  // The very first has too few channels for groups.
  step(g, "reduce", conv_norm({.out = between, .conv = {.kernel = 1, .groups = first ? 1 : u.groups}}), {"input"});
  step(g, "shuffle", nn::channel_shuffle(u.groups));
  step(g, "depthwise", plain_depthwise({.stride = u.halve ? 2 : 1, .padding = 1}));
  step(g, "depthwise_bn", nn::batch_norm());
  step(g, "expand",
       conv_norm({.out = u.halve ? u.out - u.in : u.out,
                  .conv = {.kernel = 1, .groups = u.groups},
                  .activation = nn::linear}));
  if (u.halve) {
    step(g, "pool", nn::avg_pool2d(3, {.stride = 2, .padding = 1, .count_padding = true}), {"input"});
    join(g, "both", nn::Join::concat, {"expand", "pool"});
  } else {
    join(g, "both", nn::Join::add, {"expand", "input"});
  }
  step(g, "relu", relu_layer());
  return g;
}

nn::Layer shufflenet1(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const std::int64_t groups = 3;
  const int repeats[] = {4, 8, 4};
  std::int64_t in = 24;
  nn::Sequential all;
  all.push(conv_norm({.out = in, .conv = {.stride = 2, .padding = 1}}));
  all.push(nn::max_pool2d(3, {.stride = 2, .padding = 1}));
  for (int stage = 0; stage < 3; ++stage)
    for (int i = 0; i < repeats[stage]; ++i) {
      const std::int64_t out = std::int64_t{240} << stage;
      all.push(unit1({in, out, groups, i == 0}, stage == 0 && i == 0));
      in = out;
    }
  all.push(nn::global_avg_pool2d()).push(nn::dense(s.classes(1000)));
  return nn::layer(std::move(all));
}

// ---- version 2: half of the channels pass unchanged; children named as in torchvision

class Unit2 : public nn::Module {
 public:
  Unit2(std::int64_t out, bool halve) : halve_(halve), shuffle_(nn::channel_shuffle(2)) {
    const std::int64_t half = out / 2, stride = halve ? 2 : 1;
    if (halve) {
      branch1_.push(plain_depthwise({.stride = stride, .padding = 1})).push(nn::batch_norm());
      branch1_.push(plain_conv(half, {.kernel = 1})).push(nn::batch_norm()).push(relu_layer());
    }
    branch2_.push(plain_conv(half, {.kernel = 1})).push(nn::batch_norm()).push(relu_layer());
    branch2_.push(plain_depthwise({.stride = stride, .padding = 1})).push(nn::batch_norm());
    branch2_.push(plain_conv(half, {.kernel = 1})).push(nn::batch_norm()).push(relu_layer());
    if (halve) add("branch1", branch1_);
    add("branch2", branch2_);
    add("shuffle", shuffle_);
  }
  Tensor forward(Tensor x, Mode mode) override {
    if (halve_) return shuffle_(concat({branch1_(x, mode), branch2_(x, mode)}, -1), mode);
    const std::vector<Tensor> halves = split(x, 2, -1);
    return shuffle_(concat({halves[0], branch2_(halves[1], mode)}, -1), mode);
  }
  std::string kind() const override { return "shuffle_unit"; }

 private:
  bool halve_;
  nn::Sequential branch1_, branch2_;
  nn::Function shuffle_;
};

nn::Layer shufflenet2(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const int repeats[] = {4, 8, 4};
  nn::Sequential all;
  all.push(conv_norm({.out = 24, .conv = {.stride = 2, .padding = 1}}), "conv1");
  all.push(nn::max_pool2d(3, {.stride = 2, .padding = 1}), "maxpool");
  for (int stage = 0; stage < 3; ++stage) {
    nn::Sequential units;
    for (int i = 0; i < repeats[stage]; ++i) units.push(Unit2(std::int64_t{116} << stage, i == 0));
    all.push(std::move(units), "stage" + std::to_string(stage + 2));
  }
  all.push(conv_norm({.out = 1024, .conv = {.kernel = 1}}), "conv5");
  all.push(nn::global_avg_pool2d(), "avgpool").push(nn::dense(s.classes(1000)), "fc");
  return nn::layer(std::move(all));
}

}  // namespace

std::vector<Entry> shufflenet() {
  return {{.name = "shufflenet1",
           .doc = "ShuffleNet v1, 1×, 3 groups (Zhang et al. 2018)",
           .input = {224, 224, 3},
           .parameters = 1865728,
           .smallest = {32, 32, 3},
           .make = shufflenet1},
          {.name = "shufflenet2",
           .doc = "ShuffleNet v2, 1× (Ma et al. 2018); children named as in torchvision",
           .input = {224, 224, 3},
           .parameters = 2278604,
           .smallest = {32, 32, 3},
           .make = shufflenet2}};
}

}  // namespace varve::zoo
