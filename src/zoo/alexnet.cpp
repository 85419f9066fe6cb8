#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

// Convolutions keep the size but for their stride; pools have no padding, which gives the published 6×6 at the end.
nn::Layer alexnet_network(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const std::int64_t w = s.whole("width", 32, 1 << 12);
  const nn::Pool2dOptions halve = {.stride = 2};
  const auto same = [](std::int64_t kernel, std::int64_t stride = 1) {
    return nn::Conv2dOptions{.kernel = kernel, .stride = stride, .padding = nn::same, .activation = nn::relu};
  };
  return nn::layer(nn::sequential(conv(3 * w, same(11, 4)), nn::max_pool2d(3, halve), conv(8 * w, same(5)),
                                  nn::max_pool2d(3, halve), conv(12 * w, same(3)), conv(12 * w, same(3)),
                                  conv(8 * w, same(3)), nn::max_pool2d(3, halve), nn::flatten(),
                                  nn::dense(128 * w, {.activation = nn::relu}),
                                  nn::dense(128 * w, {.activation = nn::relu}), nn::dense(s.classes(1000))));
}

nn::Layer overfeat(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const std::int64_t w = s.whole("width", 32, 1 << 12);
  const auto conv3 = [](std::int64_t out) { return conv(out, {.kernel = 3, .padding = 1, .activation = nn::relu}); };
  return nn::layer(nn::sequential(
      conv(3 * w, {.kernel = 11, .stride = 4, .padding = nn::valid, .activation = nn::relu}), nn::max_pool2d(2),
      conv(8 * w, {.kernel = 5, .padding = nn::valid, .activation = nn::relu}), nn::max_pool2d(2), conv3(16 * w),
      conv3(32 * w), conv3(32 * w), nn::max_pool2d(2), nn::flatten(), nn::dense(96 * w, {.activation = nn::relu}),
      nn::dropout(0.5), nn::dense(128 * w, {.activation = nn::relu}), nn::dropout(0.5), nn::dense(s.classes(1000))));
}

}  // namespace

std::vector<Entry> alexnet() {
  return {{.name = "alexnet",
           .doc = "AlexNet without LRN, groups and dropout (Krizhevsky et al. 2012; as Shi et al. 2016 measure it)",
           .input = {224, 224, 3},
           .parameters = 62378344,
           .smallest = {63, 63, 3},
           .sizes = {"width"},
           .make = alexnet_network},
          {.name = "overfeat",
           .doc = "OverFeat, the fast model (Sermanet et al. 2014)",
           .input = {231, 231, 3},
           .parameters = 145920872,
           .smallest = {71, 71, 3},
           .sizes = {"width"},
           .make = overfeat}};
}

}  // namespace varve::zoo
