// Tests over all networks of the zoo, and how they train one: a compiled step of Adam on one fixed batch.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "varve/varve.h"

namespace varve::zoo_tests {

using Sizes = std::map<std::string, double>;

struct Case {
  Sizes sizes = {};
  Shape input;
  std::int64_t batch = 16;
  double rate = 1e-4;
};

// The losses of `steps` training steps.
inline std::vector<float> train(const zoo::Entry& entry, const Case& c, int steps) {
  const nn::Layer model = zoo::make(entry.name, c.sizes);
  model->build(c.input, {.dtype = entry.dtype, .seed = 1, .batch = c.batch});
  Shape shape{c.batch};
  for (const std::int64_t size : c.input) shape.push_back(size);
  const auto ids = [](const Shape& s, std::int64_t count, const char* stream) {
    return cast(floor(uniform(s, {.seed = 5, .stream = stream}) * count), i32).eval();
  };
  const auto size = [&](const char* name, std::int64_t standard) {
    const auto found = c.sizes.find(name);
    return found == c.sizes.end() ? standard : static_cast<std::int64_t>(found->second);
  };
  const std::int64_t classes = size("classes", entry.classes);
  const Tensor x = entry.dtype == i32 ? ids(shape, size("vocabulary", classes), "x")
                                      : uniform(shape, {.seed = 4, .stream = "x"}).eval();
  const Shape output = (*model)(x).shape();
  const bool reconstructs = output.rank() == 4;  // as the input; all others give logits
  const Tensor target =
      reconstructs ? x : ids(Shape(std::vector<std::int64_t>(output.begin(), output.end() - 1)), output.back(), "y");
  optim::Bound adam = optim::adam(c.rate).over(model->parameters());
  auto step = compile([&](Tensor in, Tensor wanted) {
    auto [loss, grads] = value_and_grad(
        [&] {
          const Tensor y = (*model)(in, Mode::train);
          return reconstructs ? mse_loss(y, wanted) : cross_entropy(y, wanted);
        },
        model->parameters());
    adam.apply(grads);
    return loss;
  });
  // Dropout draws the same mask and memory is empty in each step, so that nothing but learning moves the loss.
  std::vector<std::pair<Variable, Tensor>> counters;
  for (const nn::NamedVariable& named : model->named_variables())
    if (named.path.ends_with("counter")) counters.emplace_back(named.variable, named.variable.value());
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) {
    for (auto& [counter, start] : counters) counter.assign(start);
    model->reset_state();
    losses.push_back(step(x, target).item<float>());
  }
  return losses;
}

// ---- one test for each network

inline std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const zoo::Entry& entry : zoo::entries()) all.push_back(entry.name);
  return all;
}
// GoogleTest allows letters and digits only.
inline std::string as_test_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}
inline std::string test_name(const testing::TestParamInfo<std::string>& test) { return as_test_name(test.param); }

}  // namespace varve::zoo_tests
