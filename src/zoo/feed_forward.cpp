#include "zoo/families.h"

namespace varve::zoo {

namespace {

struct Dense {
  std::vector<std::int64_t> hidden;
  std::int64_t classes = 10;
  nn::Activation activation = nn::relu;
};

nn::Layer dense_network(const Dense& sizes) {
  nn::Sequential all(std::vector<nn::Layer>{nn::layer(nn::flatten())});
  for (const std::int64_t width : sizes.hidden) all.push(nn::dense(width, {.activation = sizes.activation}));
  all.push(nn::dense(sizes.classes));
  return nn::layer(std::move(all));
}

// The networks of dlbench: as many outputs as inputs, sigmoid between.
Entry fcn(const std::string& name, int hidden, std::int64_t parameters) {
  return {.name = name,
          .doc = "Fully connected, 26752-" + std::to_string(hidden) + "×2048-26752, sigmoid (Shi et al. 2016)",
          .input = {26752},
          .classes = 26752,
          .parameters = parameters,
          .smallest = {64},
          .sizes = {"width", "depth"},
          .make = [hidden](const auto& given) {
            const Sizes s(given);
            const auto depth = static_cast<std::size_t>(s.whole("depth", hidden, 1000));
            return dense_network({.hidden = std::vector<std::int64_t>(depth, s.whole("width", 2048)),
                                  .classes = s.classes(26752),
                                  .activation = nn::sigmoid});
          }};
}

nn::Layer scaling(const std::map<std::string, double>& given) {
  const Sizes s(given);
  const auto depth = static_cast<std::size_t>(s.whole("depth", 2, 1000));
  return dense_network({.hidden = std::vector<std::int64_t>(depth, s.whole("width", 256)),
                        .classes = s.classes(10),
                        .activation = s.flag("tanh", false) ? nn::tanh : nn::relu});
}

// Its output has the shape of its input.
nn::Layer autoencoder(const std::map<std::string, double>& given) {
  const std::int64_t code = Sizes(given).whole("code", 100);
  if (given.contains("classes")) throw Error("zoo: autoencoder-mnist has no classes: it gives back its input.");
  nn::Sequential all(std::vector<nn::Layer>{nn::layer(nn::flatten())});
  for (const std::int64_t width : {std::int64_t{400}, std::int64_t{200}, code, std::int64_t{200}, std::int64_t{400}})
    all.push(nn::dense(width, {.activation = nn::relu}));
  all.push(nn::dense(784, {.activation = nn::sigmoid}));
  all.push(nn::reshape({28, 28, 1}));
  return nn::layer(std::move(all));
}

Entry fnn_mnist() {
  return {.name = "fnn-mnist",
          .doc = "784-512-512-10 with ReLU on MNIST (Kabakus 2020)",
          .input = {28, 28, 1},
          .classes = 10,
          .parameters = 669706,
          .train = R"(data = "mnist"
optimizer = {adam = {rate = 1e-3}}
schedule = {cosine = {}}
epochs = 20
batch = 80
validation = 0.2
)",
          .sizes = {"width"},
          .make = [](const auto& given) {
            const std::int64_t width = Sizes(given).whole("width", 512);
            return dense_network({.hidden = {width, width}, .classes = Sizes(given).classes(10)});
          }};
}

Entry fcn_scaling() {
  return {.name = "fcn-scaling",
          .doc = "depth hidden layers of width, ReLU or (tanh = 1) tanh, on MNIST (Kovalev et al. 2016)",
          .input = {28, 28, 1},
          .classes = 10,
          .parameters = 269322,
          .train = R"(data = "mnist"
optimizer = {sgd = {rate = 0.1}}
epochs = 10
batch = 64
validation = 0.1
)",
          .sizes = {"depth", "width", "tanh"},
          .make = scaling};
}

Entry autoencoder_mnist() {
  return {.name = "autoencoder-mnist",
          .doc = "stacked autoencoder 784-400-200-100-200-400-784 on MNIST (Bahrampour et al. 2015)",
          .input = {28, 28, 1},
          .classes = 784,
          .parameters = 829284,
          .train = R"(data = "mnist"
loss = "reconstruction"
optimizer = {adam = {rate = 1e-3}}
epochs = 10
batch = 128
validation = 0.1
)",
          .sizes = {"code"},
          .make = autoencoder};
}

Entry linear() {
  return {.name = "linear",
          .doc = "softmax regression",
          .input = {28, 28, 1},
          .classes = 10,
          .parameters = 7850,
          .train = R"(data = "mnist"
optimizer = {sgd = {rate = 0.1}}
epochs = 5
batch = 128
validation = 0.1
)",
          .make = [](const auto& given) { return dense_network({.hidden = {}, .classes = Sizes(given).classes(10)}); }};
}

}  // namespace

std::vector<Entry> feed_forward() {
  return {linear(),      fnn_mnist(),        fcn("fcn5", 3, 117997696), fcn("fcn8", 6, 130586752),
          fcn_scaling(), autoencoder_mnist()};
}

}  // namespace varve::zoo
