// A network of your own and a loop of your own: the exclusive or of two signs, learnt by a small perceptron.
#include <varve/varve.h>

#include <iostream>

namespace vv = varve;

struct Perceptron {
  vv::Variable w1{"w1", vv::normal({2, 16}, {.seed = 1, .stream = "w1"}) * 0.7}, b1{"b1", vv::zeros({16})};
  vv::Variable w2{"w2", vv::normal({16, 2}, {.seed = 1, .stream = "w2"}) * 0.3}, b2{"b2", vv::zeros({2})};

  std::vector<vv::Variable> parameters() const { return {w1, b1, w2, b2}; }
  vv::Tensor operator()(const vv::Tensor& x) const { return vv::linear(vv::relu(vv::linear(x, w1, b1)), w2, b2); }
};

struct Batch {
  vv::Tensor x, labels;
};

// Points of the square [-1, 1]²; the label says whether both coordinates have the same sign.
Batch draw(std::int64_t seed) {
  const vv::Tensor x = vv::uniform({128, 2}, {.seed = seed}) * 2 - 1;
  const vv::Tensor product = vv::prod(x, {.axes = vv::Axes{1}});
  return {x, vv::cast(product > 0, vv::i64)};
}

int main() {
  Perceptron model;
  std::vector<vv::Variable> parameters = model.parameters();

  // Forward, loss, gradient and update: one program, which changes the variables in place.
  auto step = vv::compile([&](vv::Tensor x, vv::Tensor labels) {
    auto [loss, grads] = vv::value_and_grad([&] { return vv::cross_entropy(model(x), labels); }, parameters);
    for (std::size_t i = 0; i < grads.size(); ++i)
      parameters[i].assign(vv::sgd_update(parameters[i], grads[i], {}, 0.5).parameter);
    return loss;
  });

  const Batch first = draw(0);
  std::cout << "peak memory of a step: " << vv::bytes(step.peak_bytes(first.x, first.labels)) << '\n';
  for (int i = 1; i <= 500; ++i) {
    const Batch batch = draw(i);
    const vv::Tensor loss = step(batch.x, batch.labels);
    if (i % 100 == 0) std::cout << "step " << i << "  loss " << loss.item<float>() << '\n';
  }

  const Batch test = draw(-1);
  const vv::Tensor right = vv::argmax(model(test.x)) == test.labels;
  const double accuracy = vv::mean(vv::cast(right, vv::f32)).item<double>();
  std::cout << "test accuracy " << accuracy << '\n';
  return accuracy > 0.9 ? 0 : 1;
}
