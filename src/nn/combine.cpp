#include "varve/nn/combine.h"

#include <algorithm>

#include "varve/ops.h"

namespace varve::nn {
namespace {

Tensor joined(Join join, const std::vector<Tensor>& parts) {
  if (join == Join::concat) return concat(parts, -1);
  Tensor y = parts.at(0);
  for (std::size_t i = 1; i < parts.size(); ++i) y = join == Join::add ? y + parts[i] : y * parts[i];
  return y;
}

void check_layer(const std::string& kind, const Layer& layer) {
  if (!layer) throw Error(kind + ": a layer of it is null.");
}

}  // namespace

Sequential::Sequential(std::vector<Layer> layers) {
  for (Layer& layer : layers) push(std::move(layer));
}

Sequential& Sequential::push(Layer layer, const std::string& name) {
  check_layer("sequential", layer);
  const std::string called = name.empty() ? std::to_string(layers_->size()) : name;
  add(called, *layer);
  layers_->push_back({called, std::move(layer)});
  return *this;
}

void Sequential::split_over_ranks(Split how) {
  for (const Named& named : *layers_) named.layer->place({.split = how});
}

Tensor Sequential::forward(Tensor x, Mode mode) {
  for (const Named& named : *layers_) x = (*named.layer)(x, mode);
  return x;
}

std::vector<std::pair<std::string, Layer>> Sequential::children() const {
  std::vector<std::pair<std::string, Layer>> all;
  for (const Named& named : *layers_) all.emplace_back(named.name, named.layer);
  return all;
}

std::vector<std::pair<std::string, Layer>> Residual::children() const {
  std::vector<std::pair<std::string, Layer>> all = {{"body", body_}};
  if (shortcut_) all.emplace_back("shortcut", shortcut_);
  return all;
}

std::vector<std::pair<std::string, Layer>> Branches::children() const {
  std::vector<std::pair<std::string, Layer>> all;
  for (const Layer& branch : branches_) all.emplace_back(std::to_string(all.size()), branch);
  return all;
}

std::vector<std::pair<std::string, Layer>> Graph::children() const {
  std::vector<std::pair<std::string, Layer>> all;
  for (const Step& step : *steps_)
    if (step.layer) all.emplace_back(step.name, step.layer);
  return all;
}

Residual::Residual(Layer body, Layer shortcut, std::function<Tensor(const Tensor&)> activation)
    : body_(std::move(body)), shortcut_(std::move(shortcut)), activation_(std::move(activation)) {
  check_layer("residual", body_);
  add("body", *body_);
  if (shortcut_) add("shortcut", *shortcut_);
}

Tensor Residual::forward(Tensor x, Mode mode) {
  const Tensor inner = (*body_)(x, mode), outer = shortcut_ ? (*shortcut_)(x, mode) : x;
  if (inner.shape() != outer.shape())
    throw Error(where() + ": the body gives " + inner.shape().str() + ", the shortcut " + outer.shape().str() +
                ": they must be equal to be added" +
                (shortcut_ ? "." : ". A shortcut, such as a convolution of 1×1, can bring x to the body's shape."));
  const Tensor y = inner + outer;
  return activation_ ? activation_(y) : y;
}

Branches::Branches(Join join, std::vector<Layer> branches) : join_(join), branches_(std::move(branches)) {
  if (branches_.empty()) throw Error("branches: needs at least one.");
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    check_layer("branches", branches_[i]);
    add(std::to_string(i), *branches_[i]);
  }
}

Tensor Branches::forward(Tensor x, Mode mode) {
  std::vector<Tensor> parts;
  for (const Layer& branch : branches_) parts.push_back((*branch)(x, mode));
  return joined(join_, parts);
}

Graph& Graph::add_step(Step step) {
  std::vector<std::string> known = {"input"};
  for (const Step& earlier : *steps_) known.push_back(earlier.name);
  const auto is_known = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  if (step.name.empty()) step.name = std::to_string(steps_->size());
  if (is_known(step.name)) throw Error("graph: the name '" + step.name + "' is taken by an earlier step.");
  if (step.from.empty()) step.from = {known.back()};
  for (const std::string& source : step.from) {
    if (is_known(source)) continue;
    throw Error("graph: step '" + step.name + "' takes its input from '" + source + "', which is no step before it." +
                did_you_mean(source, known));
  }
  if (step.layer && step.from.size() != 1)
    throw Error("graph: step '" + step.name + "' is a layer and takes one input, got " +
                std::to_string(step.from.size()) + "; join them in a step before it.");
  if (step.layer) add(step.name, *step.layer);
  steps_->push_back(std::move(step));
  return *this;
}

Tensor Graph::forward(Tensor x, Mode mode) {
  std::vector<std::pair<std::string, Tensor>> values = {{"input", x}};
  for (const Step& step : *steps_) {
    std::vector<Tensor> inputs;
    for (const std::string& source : step.from)
      inputs.push_back(
          std::find_if(values.begin(), values.end(), [&](const auto& known) { return known.first == source; })->second);
    values.emplace_back(step.name, step.layer ? (*step.layer)(inputs[0], mode) : joined(step.join, inputs));
  }
  return values.back().second;
}

}  // namespace varve::nn
