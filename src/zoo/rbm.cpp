#include "varve/distributed.h"
#include "zoo/families.h"

namespace varve::zoo {

namespace {

// Energy -v·W·h - a·v - b·h. weight W [V, H], visible_bias a, hidden_bias b.
struct Units {
  Tensor weight, visible_bias, hidden_bias;

  Tensor hidden(const Tensor& v) const { return sigmoid(linear(v, weight, hidden_bias)); }
  Tensor visible(const Tensor& h) const { return sigmoid(matmul(h, weight, {.transpose_b = true}) + visible_bias); }
  // The visible units once the hidden ones were drawn.
  Tensor dreamt(const Tensor& v, const RandomOptions& random) const {
    const Tensor h = hidden(v);
    return visible(cast(bernoulli(h.shape(), h, random), h.dtype()));
  }
  // -log Σ over h of e^-energy, of each row: its gradient is that of the energy, expected over h.
  Tensor free_energy(const Tensor& v) const {
    return -sum(softplus(linear(v, weight, hidden_bias)), {.axes = -1}) - sum(v * visible_bias, {.axes = -1});
  }
};

class Rbm : public nn::Module {
 public:
  explicit Rbm(std::int64_t hidden) : hidden_(hidden) { learns_size(); }

  // How probable each visible unit is after one step to the hidden units' probabilities and back. In training it adds
  // the divergence: what the data says minus what the model dreams, whose value is of no interest.
  Tensor forward(Tensor x, Mode mode) override {
    const Tensor v = flatten(x);
    const Units units = {parameter("weight", {v.dim(1), hidden_}, nn::init::normal(0.01)),
                         parameter("visible_bias", {v.dim(1)}, nn::init::zeros()),
                         parameter("hidden_bias", {hidden_}, nn::init::zeros())};
    Variable counter = buffer("counter", full_int({}, 0));
    if (mode == Mode::train) {
      const nn::Shard* shard = nn::Shard::current();
      const int rank = shard ? 0 : distributed::rank();
      const Tensor own = shard ? counter + shard->number() : counter.value();
      const Tensor dreamt = stop_gradient(
          units.dreamt(v, {.stream = where() + (rank > 0 ? " of rank " + std::to_string(rank) : ""), .counter = own}));
      counter.assign(counter + (shard ? shard->count() : 1));
      const Tensor divergence = mean(units.free_energy(v) - units.free_energy(dreamt));
      nn::add_loss(divergence - stop_gradient(divergence));
    }
    return reshape(units.visible(units.hidden(v)), x.shape());
  }
  std::string kind() const override { return "rbm"; }

 private:
  std::int64_t hidden_;
};

}  // namespace

std::vector<Tensor> contrastive_divergence(const nn::Module& rbm, const Tensor& x, const RandomOptions& random) {
  const Units units = {rbm.variable("weight"), rbm.variable("visible_bias"), rbm.variable("hidden_bias")};
  const Tensor v0 = flatten(x), h0 = units.hidden(v0);
  const Tensor v1 = units.dreamt(v0, random), h1 = units.hidden(v1);
  // What the model dreams minus what the data says, so that descent follows the data.
  return {(matmul(v1, h1, {.transpose_a = true}) - matmul(v0, h0, {.transpose_a = true})) / x.dim(0),
          mean(v1 - v0, {.axes = 0}), mean(h1 - h0, {.axes = 0})};
}

std::vector<Entry> rbm() {
  return {{.name = "rbm",
           .doc = "restricted Boltzmann machine 784-500 (Smolensky 1986); trained by contrastive divergence",
           .input = {28, 28, 1},
           .classes = 784,
           .parameters = 393284,
           .train = R"(data = "mnist"
loss = "contrastive_divergence"
optimizer = {sgd = {rate = 0.1, momentum = 0.5}}
epochs = 10
batch = 100
validation = 0.1
)",
           .sizes = {"width"},
           .make = [](const auto& given) -> nn::Layer {
             if (given.contains("classes")) throw Error("zoo: rbm has no classes: it gives back its input.");
             return nn::layer(Rbm(Sizes(given).whole("width", 500)));
           }}};
}

}  // namespace varve::zoo
