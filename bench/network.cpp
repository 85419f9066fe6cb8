#include "bench/network.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/text.h"
#include "bench/tree_lstm.h"
#include "varve/autodiff.h"
#include "varve/distributed.h"
#include "varve/io.h"
#include "varve/ops.h"
#include "varve/zoo.h"

namespace varve::bench {
namespace {

Shape batched(std::int64_t batch, const Shape& sample) {
  Shape shape{batch};
  for (const std::int64_t size : sample) shape.push_back(size);
  return shape;
}

Tensor ids(const Shape& shape, std::int64_t count, std::int64_t seed) {
  const double below = static_cast<double>(count) - 1e-2;  // a float just under `count` must not round to it
  return cast(uniform(shape, {.seed = seed}) * below, i32);
}

nn::Layer built(const Workload& w, const NetworkOptions& options) {
  if (w.differs()) return nn::layer(TreeLstm(w, options.seed));
  std::map<std::string, double> sizes = w.sizes;
  const std::vector<std::string>& known = zoo::find(w.zoo).sizes;
  if (!options.dropout && std::find(known.begin(), known.end(), "dropout") != known.end()) sizes["dropout"] = 0;
  nn::Layer model = zoo::make(w.zoo, sizes);
  model->build(w.input, {.dtype = w.dtype, .seed = options.seed});
  return model;
}

}  // namespace

Sample synthetic_batch(const Workload& w, std::int64_t batch, std::int64_t seed) {
  const Shape shape = batched(batch, w.input);
  Sample sample;
  sample.x = w.differs()      ? random_trees(batch, w.vocabulary, 2 * seed)
             : w.dtype == i32 ? ids(shape, w.vocabulary, 2 * seed)
                              : normal(shape, {.seed = 2 * seed});
  if (w.targets == Targets::input) {
    sample.x = uniform(shape, {.seed = 2 * seed});  // what a sigmoid can give back
    sample.y = sample.x;
  } else {
    sample.y = ids(w.targets == Targets::tokens ? shape : Shape{batch}, w.classes, 2 * seed + 1);
  }
  sample.x.eval();
  sample.y.eval();
  return sample;
}

std::vector<NamedParameter> ordered_parameters(const nn::Module& model) {
  const std::vector<nn::NamedVariable> named = model.named_variables();
  std::vector<NamedParameter> ordered;
  for (const Variable& parameter : model.parameters()) {
    const auto it = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.variable.same(parameter); });
    char number[24];
    std::snprintf(number, sizeof number, "%03zu:", ordered.size());
    ordered.push_back({number + it->path, parameter});
  }
  return ordered;
}

void save_weights(const nn::Module& model, const std::string& path) {
  Safetensors file;
  for (const NamedParameter& p : ordered_parameters(model)) file.tensors.emplace_back(p.key, p.variable.value());
  save_safetensors(path, file);
}

void load_weights(nn::Module& model, const std::string& path) {
  const Safetensors file = load_safetensors(path);
  std::vector<NamedParameter> parameters = ordered_parameters(model);
  if (file.tensors.size() != parameters.size())
    throw Error(cat(path, ": expected ", parameters.size(), " parameters, got ", file.tensors.size(), "."));
  for (NamedParameter& p : parameters) {
    const Tensor* value = file.find(p.key);
    if (!value || value->shape() != p.variable.shape())
      throw Error(cat(path, ": expected \"", p.key, "\" of shape ", p.variable.shape(), ", got ",
                      value ? value->shape().str() : std::string("nothing of that name"), "."));
    p.variable.assign(*value);
  }
}

Network::Network(const Workload& workload, const NetworkOptions& options)
    : workload_(workload), options_(options), model_(built(workload, options)) {}

std::int64_t Network::parameters() const {
  std::int64_t count = 0;
  for (const Variable& parameter : model_->parameters()) count += parameter.shape().numel();
  return count;
}

optim::Optimizer Network::optimizer() const {
  auto numbers = workload_.optimizer.numbers;
  for (auto& [name, value] : numbers)
    if (name == "rate" && options_.rate > 0) value = options_.rate;
  optim::Optimizer made = optim::by_name(workload_.optimizer.name, numbers);
  if (workload_.optimizer.clip_norm > 0) made.clip_norm(workload_.optimizer.clip_norm);
  return made;
}

Tensor Network::loss(const Tensor& x, const Tensor& y) {
  const nn::Precision precision(options_.precision.dtype);
  std::optional<nn::Watch> watch;
  if (!options_.dropout)
    watch.emplace([](const nn::Watch::Call& call) { return call.module.kind() == "dropout" ? call.x : call.y; });
  std::optional<nn::SyncBatchNorm> sync;
  if (options_.sync_batch_norm) sync.emplace();
  const Tensor output = (*model_)(x, Mode::train);
  if (workload_.targets == Targets::input) return mse_loss(cast(output, f32), x);
  return cast(cross_entropy(output, y), f32);
}

optim::Bound Network::bound() const {
  return optimizer().over(model_->parameters(), {.compress = distributed::compression_by_name(options_.compress, {})});
}

Tensor Network::train(optim::Bound& bound, const Tensor& x, const Tensor& y) {
  const auto [value, gradients] = value_and_grad([&] { return loss(x, y); }, bound.parameters());
  bound.apply(gradients);
  return value;
}

Compiled<Tensor, 2> Network::step() {
  return compile([this, bound = bound()](Tensor x, Tensor y) mutable { return train(bound, x, y); }, named("step"));
}

std::function<Tensor(const Tensor&, const Tensor&)> Network::stepper() {
  if (!workload_.differs()) return step();
  return [this, bound = bound()](const Tensor& x, const Tensor& y) mutable { return train(bound, x, y); };
}

std::function<Tensor(const Tensor&)> Network::predictor() {
  if (!workload_.differs()) return prediction();
  return [this](const Tensor& x) { return (*model_)(x, Mode::infer); };
}

Compiled<Tensor, 1> Network::prediction() {
  return compile(
      [this](Tensor x) {
        const nn::Precision precision(options_.precision.dtype);
        return cast((*model_)(x, Mode::infer), f32);
      },
      named("infer"));
}

Compiled<Tensor, 2> Network::forward() {
  return compile([this](Tensor x, Tensor y) { return loss(x, y); }, named("forward"));
}

Compiled<std::vector<Tensor>, 2> Network::gradients() {
  return compile(
      [this](Tensor x, Tensor y) {
        auto [value, gradients] = value_and_grad([&] { return loss(x, y); }, model_->parameters());
        gradients.insert(gradients.begin(), value);
        return gradients;
      },
      named("gradient"));
}

Compiled<void, 0> Network::update(const std::vector<Tensor>& gradients) {
  optim::Bound bound = optimizer().over(model_->parameters());
  return compile([bound, gradients]() mutable { bound.apply(gradients); }, named("update"));
}

}  // namespace varve::bench
