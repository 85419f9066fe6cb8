#include "nn/state.h"
#include "varve/nn/layers.h"
#include "varve/nn/text.h"

namespace varve::nn {

const Activation linear{"linear", {}};
const Activation relu{"relu", [](const Tensor& x) { return varve::relu(x); }};
const Activation relu6{"relu6", [](const Tensor& x) { return varve::relu6(x); }};
const Activation leaky_relu{"leaky_relu", [](const Tensor& x) { return varve::leaky_relu(x); }};
const Activation elu{"elu", [](const Tensor& x) { return varve::elu(x); }};
const Activation selu{"selu", [](const Tensor& x) { return varve::selu(x); }};
const Activation gelu{"gelu", [](const Tensor& x) { return varve::gelu(x); }};
const Activation gelu_tanh{"gelu_tanh", [](const Tensor& x) { return varve::gelu_tanh(x); }};
const Activation silu{"silu", [](const Tensor& x) { return varve::silu(x); }};
const Activation mish{"mish", [](const Tensor& x) { return varve::mish(x); }};
const Activation softplus{"softplus", [](const Tensor& x) { return varve::softplus(x); }};
const Activation softsign{"softsign", [](const Tensor& x) { return varve::softsign(x); }};
const Activation tanh{"tanh", [](const Tensor& x) { return varve::tanh(x); }};
const Activation sigmoid{"sigmoid", [](const Tensor& x) { return varve::sigmoid(x); }};
const Activation hardsigmoid{"hardsigmoid", [](const Tensor& x) { return varve::hardsigmoid(x); }};
const Activation hardswish{"hardswish", [](const Tensor& x) { return varve::hardswish(x); }};
const Activation hardtanh{"hardtanh", [](const Tensor& x) { return varve::hardtanh(x); }};
const Activation softmax{"softmax", [](const Tensor& x) { return varve::softmax(x); }};
const Activation log_softmax{"log_softmax", [](const Tensor& x) { return varve::log_softmax(x); }};

const std::vector<Activation>& activations() {
  static const std::vector<Activation> all = {linear,      relu,      relu6,    leaky_relu, elu,        selu, gelu,
                                              gelu_tanh,   silu,      mish,     softplus,   softsign,   tanh, sigmoid,
                                              hardsigmoid, hardswish, hardtanh, softmax,    log_softmax};
  return all;
}

Activation activation_by_name(const std::string& name) {
  if (const Activation* own = OwnNames::activation(name)) return *own;
  std::vector<std::string> names;
  for (const Activation& known : activations()) {
    if (known.name == name) return known;
    names.push_back(known.name);
  }
  throw Error("unknown activation '" + name + "'." + did_you_mean(name, names));
}

Tensor Activate::forward(Tensor x, Mode) {
  const Tensor y = of_entries(x, f_);
  carry_flattened(x, y);
  return y;
}

}  // namespace varve::nn
