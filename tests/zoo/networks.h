// The benchmark networks written with operators alone: operators must be enough for all of them, without layers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <varve/varve.h>

namespace varve::networks {

// Parameters made at first use, by name.
class Parameters {
 public:
  Variable get(const std::string& name, const Shape& shape, double deviation);
  Variable constant(const std::string& name, const Shape& shape, double value);
  std::vector<Variable> all() const;
  std::int64_t count() const;

 private:
  std::vector<std::pair<std::string, Variable>> made_;
};

// A network, its batch, and the loss on it.
struct Network {
  std::string name;
  std::vector<Tensor> batch;  // inputs, then labels
  std::function<Tensor(Parameters&, const std::vector<Tensor>&)> loss;
  bool adam = false;
};

// Full sizes as the studies have them, or small ones (`scale` < 1) that keep every kind of layer.
Network fcn(std::int64_t batch, std::int64_t ends, std::int64_t width, int hidden);
Network cnn(std::int64_t batch, std::int64_t size, std::int64_t channels, std::int64_t width);
Network vgg16(std::int64_t batch, std::int64_t size, std::int64_t width);
Network alexnet(std::int64_t batch, std::int64_t size, std::int64_t width, std::int64_t classes);
Network resnet50(std::int64_t batch, std::int64_t size, std::int64_t width, std::int64_t classes);
Network lstm_language(std::int64_t batch, std::int64_t steps, std::int64_t vocabulary, std::int64_t width);
Network lstm_classifier(std::int64_t batch, std::int64_t steps, std::int64_t vocabulary, std::int64_t embedded,
                        std::int64_t width);
Network autoencoder(std::int64_t batch, std::vector<std::int64_t> sizes);
Network gpt(std::int64_t batch, std::int64_t context, std::int64_t vocabulary, std::int64_t width, int layers,
            std::int64_t heads);

// A whole training step as one program: forward, loss, gradient, update.
class Trainer {
 public:
  explicit Trainer(Network network, double rate);
  double step();  // the loss before the update
  Parameters& parameters() { return *parameters_; }
  std::int64_t peak_bytes();
  Profile profile(int repeats);
  std::string text();

 private:
  Network network_;
  std::shared_ptr<Parameters> parameters_;
  std::shared_ptr<detail::CompiledFn> program_;
  std::vector<Tensor> results_;
};

}  // namespace varve::networks
