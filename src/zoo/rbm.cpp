#include "zoo/families.h"

namespace varve::zoo {

namespace {

// Energy -v·W·h - a·v - b·h. weight W [V, H], visible_bias a, hidden_bias b.
class Rbm : public nn::Module {
 public:
  explicit Rbm(std::int64_t hidden) : hidden_(hidden) { learns_size(); }

  // How probable each visible unit is after one step to the hidden units' probabilities and back.
  Tensor forward(Tensor x, Mode) override {
    const Tensor v = flatten(x);
    const Tensor weight = parameter("weight", {v.dim(1), hidden_}, nn::init::normal(0.01));
    const Tensor visible_bias = parameter("visible_bias", {v.dim(1)}, nn::init::zeros());
    const Tensor hidden_bias = parameter("hidden_bias", {hidden_}, nn::init::zeros());
    const Tensor h = sigmoid(linear(v, weight, hidden_bias));
    return reshape(sigmoid(matmul(h, weight, {.transpose_b = true}) + visible_bias), x.shape());
  }
  std::string kind() const override { return "rbm"; }

 private:
  std::int64_t hidden_;
};

}  // namespace

std::vector<Tensor> contrastive_divergence(const nn::Module& rbm, const Tensor& x, const RandomOptions& random) {
  const Tensor weight = rbm.variable("weight"), visible_bias = rbm.variable("visible_bias"),
               hidden_bias = rbm.variable("hidden_bias");
  const Tensor v0 = flatten(x);
  const Tensor h0 = sigmoid(linear(v0, weight, hidden_bias));
  const Tensor drawn = cast(bernoulli(h0.shape(), h0, random), f32);
  const Tensor v1 = sigmoid(matmul(drawn, weight, {.transpose_b = true}) + visible_bias);
  const Tensor h1 = sigmoid(linear(v1, weight, hidden_bias));
  // What the model dreams minus what the data says, so that descent follows the data.
  return {(matmul(v1, h1, {.transpose_a = true}) - matmul(v0, h0, {.transpose_a = true})) / x.dim(0),
          mean(v1 - v0, {.axes = Axes{0}}), mean(h1 - h0, {.axes = Axes{0}})};
}

std::vector<Entry> rbm() {
  return {{.name = "rbm",
           .doc = "restricted Boltzmann machine 784-500 (Smolensky 1986); trained by zoo::contrastive_divergence",
           .input = {28, 28, 1},
           .classes = 784,
           .parameters = 393284,
           .sizes = {"width"},
           .make = [](const auto& given) -> nn::Layer {
             if (given.contains("classes")) throw Error("zoo: rbm has no classes: it gives back its input.");
             return nn::layer(Rbm(Sizes(given).whole("width", 500)));
           }}};
}

}  // namespace varve::zoo
