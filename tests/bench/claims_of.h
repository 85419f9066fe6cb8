// Who claims what in a training step of a small network.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/nn.h"
#include "varve/ops.h"
#include "varve/optim.h"
#include "varve/zoo.h"

namespace varve::test {

struct Subject {
  std::function<nn::Layer()> make;
  Shape input;
  std::int64_t batch = 16;
  DType dtype = f32;
  std::int64_t classes = 10;
  bool tokens = false;  // a target for each of them
  std::string optimizer = "sgd";
};

// Who claimed what in a training step: the names before "<-" in the program's own account.
inline std::set<std::string> claims_of(const Subject& s) {
  static const std::regex tile("winograd F\\([^)]*\\)");  // how large its tiles are follows from the image
  const nn::Layer model = s.make();
  model->build(s.input, {.dtype = s.dtype});
  optim::Bound optimizer = optim::by_name(s.optimizer, {}).over(model->parameters());
  auto step = compile([&](Tensor x, Tensor y) {
    const auto [loss, gradients] =
        value_and_grad([&] { return cross_entropy((*model)(x, Mode::train), y); }, optimizer.parameters());
    optimizer.apply(gradients);
    return loss;
  });
  Shape shape{s.batch};
  for (const std::int64_t size : s.input) shape.push_back(size);
  const Tensor x = zeros(shape, s.dtype), y = zeros(s.tokens ? shape : Shape{s.batch}, i32);
  std::istringstream account(step.text(x, y));
  std::set<std::string> names;
  for (std::string line; std::getline(account, line);) {
    const std::size_t arrow = line.find("  <-  ");
    if (arrow != std::string::npos && !line.starts_with(" "))
      names.insert(std::regex_replace(line.substr(0, arrow), tile, "winograd"));
  }
  EXPECT_FALSE(names.empty());
  return names;
}

inline std::function<nn::Layer()> zoo_of(const std::string& name, std::map<std::string, double> sizes) {
  return [name, sizes] { return zoo::make(name, sizes); };
}

}  // namespace varve::test
