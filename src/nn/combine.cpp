#include "varve/nn/combine.h"

#include <algorithm>
#include <typeinfo>

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

Tensors Sequential::forward_all(const Tensors& x, Mode mode) {
  if (x.size() == 1 && typeid(*this) != typeid(Sequential)) return forward(x[0], mode);
  return chained(x, mode);
}
Tensor Sequential::forward(Tensor x, Mode mode) { return chained(x, mode).one(); }

Tensors Sequential::chained(const Tensors& x, Mode mode) const {
  Tensors y = x;
  for (const Named& named : *layers_) y = (*named.layer)(y, mode);
  return y;
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
  for (const HeldLayer& branch : branches_) all.emplace_back(std::to_string(all.size()), branch);
  return all;
}

std::vector<std::pair<std::string, Layer>> Graph::children() const {
  std::vector<std::pair<std::string, Layer>> all;
  for (const Step& step : plan_->steps)
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

Branches::Branches(Join join, std::vector<Layer> branches) : join_(join), branches_(branches.begin(), branches.end()) {
  if (branches_.empty()) throw Error("branches: needs at least one.");
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    check_layer("branches", branches_[i]);
    add(std::to_string(i), *branches_[i]);
  }
}

Tensor Branches::forward(Tensor x, Mode mode) {
  std::vector<Tensor> parts;
  for (const HeldLayer& branch : branches_) parts.push_back((*branch)(x, mode));
  return joined(join_, parts);
}

namespace {

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

}  // namespace

Graph::Graph(const std::vector<std::string>& inputs) {
  if (inputs.empty()) throw Error("graph: needs at least one input.");
  for (const std::string& name : inputs) {
    if (name.empty()) throw Error("graph: an input has no name.");
    if (is_among(plan_->inputs, name)) throw Error("graph: two inputs are named '" + name + "'.");
    plan_->inputs.push_back(name);
  }
}

std::vector<std::string> Graph::known() const {
  std::vector<std::string> names = plan_->inputs;
  for (const Step& step : plan_->steps) names.push_back(step.name);
  return names;
}

Graph& Graph::add_step(Step step) {
  const std::vector<std::string> before = known();
  if (step.name.empty()) step.name = std::to_string(plan_->steps.size());
  if (is_among(plan_->inputs, step.name) && plan_->inputs.size() > 1)
    throw Error("graph: the name '" + step.name + "' is taken by an input.");
  if (is_among(before, step.name)) throw Error("graph: the name '" + step.name + "' is taken by an earlier step.");
  if (step.from.empty() && plan_->steps.empty() && plan_->inputs.size() > 1)
    throw Error("graph: step '" + step.name + "' is the first one, and must say which input it takes: from " +
                listed(plan_->inputs) + ".");
  if (step.from.empty()) step.from = {before.back()};
  for (const std::string& source : step.from) {
    if (is_among(before, source)) continue;
    throw Error("graph: step '" + step.name + "' takes its input from '" + source + "', which is no step before it." +
                did_you_mean(source, before));
  }
  if (step.layer) add(step.name, *step.layer);
  plan_->steps.push_back(std::move(step));
  return *this;
}

Graph& Graph::set_outputs(const std::vector<std::string>& steps) {
  std::vector<std::string> outputs;
  for (const std::string& name : steps) {
    if (!is_among(known(), name))
      throw Error("graph: the output '" + name + "' is no step." + did_you_mean(name, known()));
    if (is_among(outputs, name)) throw Error("graph: the output '" + name + "' comes twice.");
    outputs.push_back(name);
  }
  plan_->outputs = std::move(outputs);
  return *this;
}

Tensors Graph::forward_all(const Tensors& x, Mode mode) {
  if (x.size() == 1 && typeid(*this) != typeid(Graph)) return forward(x[0], mode);
  return computed(x, mode);
}
Tensor Graph::forward(Tensor x, Mode mode) { return computed(x, mode).one(); }

Tensors Graph::computed(const Tensors& x, Mode mode) const {
  std::vector<Field> wanted;
  for (const std::string& name : plan_->inputs) wanted.push_back({name, {}});
  if (x.size() != wanted.size())
    throw Error("expected " + std::to_string(wanted.size()) + (wanted.size() == 1 ? " input (" : " inputs (") +
                listed(plan_->inputs) + "), got " + std::to_string(x.size()) + " (" + x.str() + ").");
  Tensors values = x.as(wanted, "inputs");
  for (const Step& step : plan_->steps) {
    std::vector<Tensor> inputs;
    for (const std::string& source : step.from) inputs.push_back(values[source]);
    if (!step.layer)
      values.add(step.name, joined(step.join, inputs));
    else if (inputs.size() == 1)
      values.add(step.name, (*step.layer)(inputs[0], mode));
    else
      values.add(step.name, (*step.layer)(Tensors(inputs), mode).one());
  }
  if (plan_->outputs.empty()) return values[values.size() - 1];
  Tensors outputs;
  for (const std::string& name : plan_->outputs) outputs.add(name, values[name]);
  return outputs;
}

}  // namespace varve::nn
