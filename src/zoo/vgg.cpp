#include "zoo/blocks.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

struct Vgg {
  std::vector<int> repeats;  // convolutions in each of the five blocks
  bool norm = false;         // a batch norm after each
};

// Children are numbered as in torchvision, where each ReLU is a child of its own.
nn::Sequential features(const Vgg& vgg, std::int64_t width) {
  nn::Sequential all;
  int position = 0;
  const int factors[] = {1, 2, 4, 8, 8};
  for (std::size_t block = 0; block < vgg.repeats.size(); ++block) {
    for (int i = 0; i < vgg.repeats[block]; ++i) {
      const nn::Activation inside = vgg.norm ? nn::linear : nn::relu;
      all.push(conv(width * factors[block], {.padding = 1, .activation = inside}), std::to_string(position++));
      if (vgg.norm) all.push(nn::batch_norm({.activation = nn::relu}), std::to_string(position++));
      ++position;
    }
    all.push(nn::max_pool2d(2), std::to_string(position++));
  }
  return all;
}

nn::Layer vgg_network(nn::Sequential features, nn::Sequential classifier) {
  nn::Sequential all;
  all.push(std::move(features), "features");
  all.push(nn::flatten(), "flatten");
  all.push(std::move(classifier), "classifier");
  return nn::layer(std::move(all));
}

Entry vgg_entry(const std::string& name, const Vgg& vgg, std::int64_t parameters) {
  return {.name = name,
          .doc = "VGG-" + name.substr(3) + " (Simonyan and Zisserman 2015); children named as in torchvision",
          .input = {224, 224, 3},
          .parameters = parameters,
          .smallest = {32, 32, 3},
          .sizes = {"width"},
          .make = [vgg](const auto& given) {
            const Sizes s(given);
            const std::int64_t width = s.whole("width", 64, 1 << 12);
            nn::Sequential head;
            head.push(nn::dense(64 * width, {.activation = nn::relu}), "0").push(nn::dropout(0.5), "2");
            head.push(nn::dense(64 * width, {.activation = nn::relu}), "3").push(nn::dropout(0.5), "5");
            head.push(nn::dense(s.classes(1000)), "6");
            return vgg_network(features(vgg, width), std::move(head));
          }};
}

Entry cifar(const std::string& name, const Vgg& vgg, std::int64_t parameters, const std::string& rate) {
  return {.name = name,
          .doc = std::string("VGG-16 for 32×32 images, dense 512-512-10") + (vgg.norm ? ", with batch norm" : "") +
                 " (Kabakus 2020)",
          .input = {32, 32, 3},
          .classes = 10,
          .parameters = parameters,
          .train = "data = \"cifar10\"\noptimizer = {adam = {rate = " + rate +
                   "}}\nepochs = 20\nbatch = 80\nvalidation = 0.2\n",
          .sizes = {"width"},
          .make = [vgg](const auto& given) {
            const Sizes s(given);
            const std::int64_t width = s.whole("width", 64, 1 << 12);
            return vgg_network(features(vgg, width), nn::sequential(nn::dense(8 * width, {.activation = nn::relu}),
                                                                    nn::dense(8 * width, {.activation = nn::relu}),
                                                                    nn::dense(s.classes(10))));
          }};
}

}  // namespace

std::vector<Entry> vgg() {
  return {vgg_entry("vgg11", {{1, 1, 2, 2, 2}}, 132863336),
          vgg_entry("vgg13", {{2, 2, 2, 2, 2}}, 133047848),
          vgg_entry("vgg16", {{2, 2, 3, 3, 3}}, 138357544),
          vgg_entry("vgg19", {{2, 2, 4, 4, 4}}, 143667240),
          cifar("vgg16-cifar", {{2, 2, 3, 3, 3}}, 15245130, "1e-4"),
          cifar("vgg16-bn-cifar", {{2, 2, 3, 3, 3}, true}, 15253578, "1e-3")};
}

}  // namespace varve::zoo
