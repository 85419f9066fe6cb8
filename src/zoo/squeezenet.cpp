#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

// 1×1 to few channels, then 1×1 and 3×3 side by side.
nn::Graph fire(std::int64_t squeeze, std::int64_t expand) {
  nn::Graph g;
  step(g, "squeeze", conv(squeeze, {.kernel = 1, .activation = nn::relu}), {"input"});
  step(g, "expand1x1", conv(expand, {.kernel = 1, .activation = nn::relu}), {"squeeze"});
  step(g, "expand3x3", conv(expand, {.padding = 1, .activation = nn::relu}), {"squeeze"});
  join(g, "concat", nn::Join::concat, {"expand1x1", "expand3x3"});
  return g;
}

nn::Pool2d halve() { return nn::max_pool2d(3, {.stride = 2, .ceil_mode = true}); }

// Children are numbered as in torchvision, where each ReLU is a child of its own.
nn::Sequential features10() {
  nn::Sequential f;
  f.push(conv(96, {.kernel = 7, .stride = 2, .padding = nn::valid, .activation = nn::relu}), "0").push(halve(), "2");
  f.push(fire(16, 64), "3").push(fire(16, 64), "4").push(fire(32, 128), "5").push(halve(), "6");
  f.push(fire(32, 128), "7").push(fire(48, 192), "8").push(fire(48, 192), "9").push(fire(64, 256), "10");
  f.push(halve(), "11").push(fire(64, 256), "12");
  return f;
}

nn::Sequential features11() {
  nn::Sequential f;
  f.push(conv(64, {.stride = 2, .padding = nn::valid, .activation = nn::relu}), "0").push(halve(), "2");
  f.push(fire(16, 64), "3").push(fire(16, 64), "4").push(halve(), "5");
  f.push(fire(32, 128), "6").push(fire(32, 128), "7").push(halve(), "8");
  f.push(fire(48, 192), "9").push(fire(48, 192), "10").push(fire(64, 256), "11");
  f.push(fire(64, 256), "12");
  return f;
}

nn::Layer squeezenet_network(nn::Sequential features, std::int64_t classes) {
  nn::Sequential head, all;
  head.push(nn::dropout(0.5), "0");
  head.push(nn::conv2d(classes, {.kernel = 1, .activation = nn::relu, .weight_init = nn::init::normal(0.01)}), "1");
  head.push(nn::global_avg_pool2d(), "3");
  all.push(std::move(features), "features").push(std::move(head), "classifier");
  return nn::layer(std::move(all));
}

Entry entry(const std::string& name, const std::string& version, nn::Sequential (*features)(), Shape smallest,
            std::int64_t parameters) {
  return {.name = name,
          .doc = "SqueezeNet " + version + " (Iandola et al. 2016); children named as in torchvision",
          .input = {224, 224, 3},
          .parameters = parameters,
          .smallest = std::move(smallest),
          .make = [features](const auto& given) { return squeezenet_network(features(), Sizes(given).classes(1000)); }};
}

}  // namespace

std::vector<Entry> squeezenet() {
  return {entry("squeezenet1.0", "1.0", features10, {33, 33, 3}, 1248424),
          entry("squeezenet1.1", "1.1", features11, {33, 33, 3}, 1235496)};
}

}  // namespace varve::zoo
