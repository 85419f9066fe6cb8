// A small training step with everything in it: convolution, batch norm, dense layer, adam.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "text_checks.h"
#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/ops.h"

namespace varve::runtime {

using Floats = std::vector<float>;
using Tensors = std::vector<Tensor>;

using varve::test::contains;

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Adam {
  std::vector<Variable> parameters, first, second;
  Variable step{"step", tensor(0.f), false}, rate{"rate", tensor(0.01f), false};

  explicit Adam(std::vector<Variable> over) : parameters(std::move(over)) {
    for (const Variable& v : parameters) {
      first.emplace_back(v.name() + ".m", zeros(v.shape()), false);
      second.emplace_back(v.name() + ".v", zeros(v.shape()), false);
    }
  }
  void apply(const Tensors& grads) {
    step.assign(step + 1);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Updated u = adam_update(parameters[i], grads[i], first[i], second[i], rate, step);
      parameters[i].assign(u.parameter);
      first[i].assign(u.state[0]);
      second[i].assign(u.state[1]);
    }
  }
};

struct SmallNet {
  Variable kernel{"conv.kernel", normal({8, 3, 3, 3}, {.seed = 1}) * 0.2};
  Variable scale{"norm.scale", ones({8})}, shift{"norm.shift", zeros({8})}, mean{"norm.mean", zeros({8}), false};
  Variable weight{"dense.weight", normal({8 * 4 * 4, 10}, {.seed = 2}) * 0.1}, bias{"dense.bias", zeros({10})};
  Adam adam{{kernel, scale, shift, weight, bias}};

  Tensor loss(const Tensor& x, const Tensor& labels) {
    const BatchNorm norm = batch_norm_train(conv2d(x, kernel), scale, shift);
    mean.assign(mean * 0.9 + norm.mean * 0.1);
    return cross_entropy(linear(flatten(max_pool2d(relu(norm.y))), weight, bias), labels);
  }
  Tensor step(const Tensor& x, const Tensor& labels) {
    const auto [value, grads] = value_and_grad([&] { return loss(x, labels); }, adam.parameters);
    adam.apply(grads);
    return value;
  }
  std::vector<Variable> state() const {
    std::vector<Variable> all = adam.parameters;
    all.insert(all.end(), adam.first.begin(), adam.first.end());
    all.insert(all.end(), adam.second.begin(), adam.second.end());
    all.push_back(adam.step);
    all.push_back(mean);
    return all;
  }
  std::vector<Floats> numbers() const {
    std::vector<Floats> all;
    for (const Variable& v : state()) all.push_back(v.value().to_vector<float>());
    return all;
  }
};

inline Tensor images(std::int64_t batch = 16) { return uniform({batch, 10, 10, 3}, {.seed = 5}).eval(); }
inline Tensor classes(std::int64_t batch = 16) { return (arange(batch) % 10).eval(); }

}  // namespace varve::runtime
