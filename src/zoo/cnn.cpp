#include "zoo/families.h"

namespace varve::zoo {

namespace {

nn::Layer two_convolutions(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const std::int64_t width = s.whole("width", 32, 1 << 16);
  const nn::Conv2dOptions conv = {.kernel = 5, .padding = nn::valid, .activation = nn::relu};
  return nn::layer(nn::sequential(nn::conv2d(width, conv), nn::max_pool2d(2), nn::dropout(0.25),
                                  nn::conv2d(2 * width, conv), nn::max_pool2d(2), nn::dropout(0.25), nn::flatten(),
                                  nn::dense(16 * width, {.activation = nn::relu}), nn::dense(s.classes(10))));
}

nn::Layer lenet(const std::map<std::string, double>& given) {
  return nn::layer(nn::sequential(nn::conv2d(6, {.kernel = 5, .padding = nn::same, .activation = nn::tanh}),
                                  nn::avg_pool2d(2),
                                  nn::conv2d(16, {.kernel = 5, .padding = nn::valid, .activation = nn::tanh}),
                                  nn::avg_pool2d(2), nn::flatten(), nn::dense(120, {.activation = nn::tanh}),
                                  nn::dense(84, {.activation = nn::tanh}), nn::dense(Sizes(given).classes(10))));
}

}  // namespace

std::vector<Entry> cnn() {
  return {
      {.name = "lenet5",
       .doc = "LeNet-5, all channels connected, for 28×28×1 (LeCun et al. 1998)",
       .input = {28, 28, 1},
       .classes = 10,
       .parameters = 61706,
       .train = R"(data = "digits"
optimizer = {adam = {rate = 1e-3}}
epochs = 3
batch = 128
validation = 0.1
)",
       .make = lenet},
      {.name = "cnn-mnist",
       .doc = "2 × (convolution 5×5 without padding, max-pool, dropout), dense 512, on MNIST (Shatnawi et al. 2018)",
       .input = {28, 28, 1},
       .classes = 10,
       .parameters = 582026,
       .train = R"(data = "mnist"
optimizer = {adam = {rate = 1e-3}}
schedule = {cosine = {}}
epochs = 12
batch = 128
validation = 0.1
)",
       .sizes = {"width"},
       .make = two_convolutions},
      {.name = "cnn-cifar",
       .doc = "cnn-mnist's network on CIFAR-10 (Shatnawi et al. 2018)",
       .input = {32, 32, 3},
       .classes = 10,
       .parameters = 878538,
       .train = R"(data = "cifar10"
mean = [0.4914, 0.4822, 0.4465]
deviation = [0.2470, 0.2435, 0.2616]
augment = [{crop = {padding = 4}}, {flip = {}}]
optimizer = {adam = {rate = 1e-3}}
schedule = {cosine = {}}
epochs = 20
batch = 128
validation = 0.1
)",
       .sizes = {"width"},
       .make = two_convolutions}};
}

}  // namespace varve::zoo
