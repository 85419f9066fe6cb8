// A module and a training loop of your own. Compiled or not, the numbers are the same.
#include <varve/varve.h>

#include <cmath>
#include <iostream>

namespace vv = varve;
namespace nn = vv::nn;

struct Residual : nn::Module {
  nn::Conv2d first, second;
  explicit Residual(int channels) : first(channels, {.kernel = {3, 3}}), second(channels, {.kernel = {3, 3}}) {
    add("first", first);
    add("second", second);
  }
  vv::Tensor forward(vv::Tensor x, vv::Mode mode) override {
    return vv::relu(x + second(vv::relu(first(x, mode)), mode));
  }
  std::string kind() const override { return "my_residual"; }
};

// The losses of at most so many steps, by a program for the whole step or by plain lazy code.
std::vector<float> train(nn::Sequential& model, const vv::data::Dataset& digits, std::size_t steps, bool compiled) {
  auto adam = vv::optim::adam(3e-3).over(model.parameters());
  const auto one_step = [&](vv::Tensor x, vv::Tensor labels) {
    auto [loss, grads] =
        vv::value_and_grad([&] { return vv::cross_entropy(model(x, vv::Mode::train), labels); }, model.parameters());
    adam.apply(grads);
    return loss;
  };
  auto step = vv::compile(one_step);

  std::vector<float> losses;
  for (auto& [x, labels] : vv::data::batches(digits, {.batch = 50, .seed = 7})) {
    if (losses.size() == steps) break;
    if (compiled && losses.empty())  // known before it runs
      std::cout << "peak memory of a step: " << vv::bytes(step.peak_bytes(x, labels)) << '\n';
    losses.push_back((compiled ? step(x, labels) : one_step(x, labels)).item<float>());
  }
  return losses;
}

nn::Sequential network() {
  auto model = nn::sequential(nn::conv2d(8, {.kernel = 5, .stride = 2, .activation = nn::relu}), Residual(8),
                              nn::max_pool2d(2), nn::flatten(), nn::dense(10));
  model.build({28, 28, 1}, {.seed = 3});
  return model;
}

int main() {
  const vv::data::Dataset digits = vv::data::digits({.train = 2000, .test = 1}).train;
  nn::Sequential one = network(), other = network();
  one.summary();

  const std::vector<float> with = train(one, digits, 40, true), without = train(other, digits, 4, false);
  float apart = 0;
  for (std::size_t i = 0; i < without.size(); ++i) apart = std::max(apart, std::abs(with[i] - without[i]));
  std::cout << with.size() << " steps: loss " << with.front() << " to " << with.back() << "; the first "
            << without.size() << " without compile differ by at most " << apart << '\n';
  return with.back() < 0.7f * with.front() && without.size() == 4 && apart < 1e-3f ? 0 : 1;
}
