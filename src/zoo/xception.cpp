#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

// A 3×3 on each channel, then 1×1 across them, then a batch norm.
nn::Sequential separable(std::int64_t out, const nn::Activation& activation = nn::linear) {
  return nn::sequential(plain_depthwise({.padding = nn::same}), plain_conv(out, {.kernel = 1}),
                        nn::batch_norm({.activation = activation}));
}

// Two separable convolutions and a pool, beside a 1×1 with stride 2.
nn::Residual reducing(std::int64_t between, std::int64_t out, bool relu_first) {
  nn::Sequential body;
  if (relu_first) body.push(nn::activation(nn::relu));
  body.push(separable(between, nn::relu)).push(separable(out));
  body.push(nn::max_pool2d(3, {.stride = 2, .padding = nn::same}));
  return nn::residual(
      std::move(body),
      nn::layer(
          conv_norm({.out = out, .conv = {.kernel = 1, .stride = 2, .padding = nn::same}, .activation = nn::linear})));
}

nn::Residual middle(std::int64_t width) {
  nn::Sequential body;
  for (int i = 0; i < 3; ++i) body.push(nn::activation(nn::relu)).push(separable(width));
  return nn::residual(std::move(body));
}

nn::Layer xception_network(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const std::int64_t middles = s.whole("middle", 8, 1000);
  nn::Sequential all;
  all.push(conv_norm({.out = 32, .conv = {.stride = 2, .padding = nn::valid}}))
      .push(conv_norm({.out = 64, .conv = {.padding = nn::valid}}));
  all.push(reducing(128, 128, false)).push(reducing(256, 256, true)).push(reducing(728, 728, true));
  for (std::int64_t i = 0; i < middles; ++i) all.push(middle(728));
  all.push(reducing(728, 1024, true)).push(separable(1536, nn::relu)).push(separable(2048, nn::relu));
  all.push(nn::global_avg_pool2d()).push(nn::dense(s.classes(1000)));
  return nn::layer(std::move(all));
}

}  // namespace

std::vector<Entry> xception() {
  return {{.name = "xception",
           .doc = "Xception (Chollet 2017); the count leaves out 54,528 statistics that Keras adds",
           .input = {299, 299, 3},
           .parameters = 22855952,
           .smallest = {35, 35, 3},
           .sizes = {"middle"},
           .make = xception_network}};
}

}  // namespace varve::zoo
