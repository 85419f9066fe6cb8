#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

// Channels of the four branches: 1×1; 1×1 then 3×3; 1×1 then 3×3 (where the paper says 5×5); pool then 1×1.
struct Widths {
  std::int64_t one, reduce3, three, reduce5, five, pool;
};

nn::Graph block(const Widths& w) {
  const nn::Conv2dOptions three = {.kernel = 3, .padding = 1};
  return side_by_side(
      {{named("branch1", basic_conv(w.one))},
       {named("branch2", nn::sequential(basic_conv(w.reduce3), basic_conv(w.three, three)))},
       {named("branch3", nn::sequential(basic_conv(w.reduce5), basic_conv(w.five, three)))},
       {named("branch4", nn::sequential(nn::max_pool2d(3, {.stride = 1, .padding = 1}), basic_conv(w.pool)))}});
}

nn::Layer googlenet_network(const std::map<std::string, double>& given) {
  const nn::Pool2dOptions halve = {.stride = 2, .ceil_mode = true};
  nn::Sequential all;
  all.push(basic_conv(64, {.kernel = 7, .stride = 2, .padding = 3}), "conv1");
  all.push(nn::max_pool2d(3, halve), "maxpool1");
  all.push(basic_conv(64), "conv2").push(basic_conv(192, {.kernel = 3, .padding = 1}), "conv3");
  all.push(nn::max_pool2d(3, halve), "maxpool2");
  all.push(block({64, 96, 128, 16, 32, 32}), "inception3a");
  all.push(block({128, 128, 192, 32, 96, 64}), "inception3b");
  all.push(nn::max_pool2d(3, halve), "maxpool3");
  all.push(block({192, 96, 208, 16, 48, 64}), "inception4a");
  all.push(block({160, 112, 224, 24, 64, 64}), "inception4b");
  all.push(block({128, 128, 256, 24, 64, 64}), "inception4c");
  all.push(block({112, 144, 288, 32, 64, 64}), "inception4d");
  all.push(block({256, 160, 320, 32, 128, 128}), "inception4e");
  all.push(nn::max_pool2d(2, halve), "maxpool4");
  all.push(block({256, 160, 320, 32, 128, 128}), "inception5a");
  all.push(block({384, 192, 384, 48, 128, 128}), "inception5b");
  all.push(nn::global_avg_pool2d(), "avgpool").push(nn::dropout(0.2), "dropout");
  all.push(nn::dense(Sizes(given).classes(1000)), "fc");
  return nn::layer(std::move(all));
}

}  // namespace

std::vector<Entry> googlenet() {
  return {{.name = "googlenet",
           .doc = "GoogLeNet as torchvision has it: batch norm, 3×3 in place of 5×5, without the auxiliary heads "
                  "(Szegedy et al. 2015)",
           .input = {224, 224, 3},
           .parameters = 6624904,
           .smallest = {32, 32, 3},
           .make = googlenet_network}};
}

}  // namespace varve::zoo
