// Random programs over a few small shapes: elementwise, reductions, views, products and state updates.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "varve/ops.h"

namespace varve::compiler {

class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed, int nodes = 40) : seed_(seed), nodes_(nodes) {}

  // The same calls for the same seed, on whatever tensors are given: [6, 8], [8, 6], [8], [6, 1].
  std::vector<Tensor> operator()(const std::vector<Tensor>& in, std::vector<Variable>& state) const {
    std::mt19937 random(seed_);
    std::vector<Tensor> pool = in;
    for (const Variable& v : state) pool.push_back(v.value());
    const auto pick = [&] { return pool[random() % pool.size()]; };
    for (int i = 0; i < nodes_; ++i) {
      const unsigned which = static_cast<unsigned>(random() % 14);
      const Tensor a = pick(), b = pick();
      pool.push_back(next(which, a, b));
      if (!state.empty() && random() % 6 == 0) assign(state[random() % state.size()], pool);
    }
    std::vector<Tensor> outputs;
    for (int i = 0; i < 4; ++i) outputs.push_back(pick());
    outputs.push_back(pool.back());
    return outputs;
  }

 private:
  static bool fits(const Shape& a, const Shape& b) {
    try {
      return broadcast(a, b, "").numel() <= 48;
    } catch (const Error&) {
      return false;
    }
  }

  static Tensor next(unsigned which, const Tensor& a, const Tensor& b) {
    const bool pair = fits(a.shape(), b.shape());
    switch (which) {
      case 0:
        return pair ? a + b : varve::tanh(a);
      case 1:
        return pair ? a * b * 0.5 : varve::sin(a);
      case 2:
        return pair ? maximum(a, b) : relu(a);
      case 3:
        return varve::tanh(a);
      case 4:
        return a.rank() ? mean(a, {.axes = Axes{0}, .keep = true}) : a + 1;
      case 5:
        return a.rank() ? mean(a, {.axes = Axes{-1}, .keep = true}) : a * 2;
      case 6:
        return a.rank() == 2 ? transpose(a) : varve::cos(a);
      case 7:
        return a.rank() == 2 && a.dim(0) > 2 ? slice(a, {{1, a.dim(0) - 1}}) : varve::cos(a);
      case 8:
        return a.rank() == 2 && b.rank() == 2 && a.dim(1) == b.dim(0) ? varve::tanh(matmul(a, b)) : a - 0.25;
      case 9:
        return a.rank() == 2 ? softmax(a) : varve::tanh(a);
      case 10:
        return reshape(a, {-1});
      case 11:
        return a.rank() ? flip(a, {0}) : a;
      case 12:
        return cast(cast(a, bf16), f32);
      default:
        return where(a > 0.1, a, a * 0.5);
    }
  }

  // Some value of the right shape, the newest first.
  static void assign(Variable& v, const std::vector<Tensor>& pool) {
    for (auto it = pool.rbegin(); it != pool.rend(); ++it)
      if (it->shape() == v.shape()) return v.assign(*it);
  }

  unsigned seed_;
  int nodes_;
};

inline std::vector<Tensor> random_inputs() {
  const auto values = [](const Shape& shape, float phase) {
    std::vector<float> v(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = 0.05f * static_cast<float>((i * 37 + static_cast<std::size_t>(phase * 11)) % 41) - 1.f + 0.01f * phase;
    return tensor(v, shape);
  };
  return {values({6, 8}, 1), values({8, 6}, 2), values({8}, 3), values({6, 1}, 4)};
}

inline std::vector<Variable> random_state() {
  const std::vector<Tensor> in = random_inputs();
  return {Variable("a", in[0] * 0.5), Variable("b", in[0] + 0.25), Variable("c", in[1] * 0.75), Variable("d", in[2])};
}

}  // namespace varve::compiler
