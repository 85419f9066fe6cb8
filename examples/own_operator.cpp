// An operator of your own from its formula: shape rule, gradient, fusion and every device follow from it.
#include <varve/varve.h>

#include <cmath>
#include <iostream>

namespace vv = varve;

// x · σ(βx), with β a tensor like any other input: it broadcasts, and has a gradient too.
const vv::OpDef swish = vv::elementwise({.name = "swish",
                                         .doc = "x · σ(βx)",
                                         .formula = [](vv::Expr x, vv::Expr beta) { return x * sigmoid(beta * x); },
                                         .result = vv::ResultType::floating});

int main() {
  const vv::Tensor x = vv::linspace(-3, 3, 7), beta = vv::tensor(2.f);
  std::cout << swish(x, beta) << '\n';

  // The gradient of the sum is the slope at each point; here beside central differences.
  const vv::Tensor slope = vv::grad([&](vv::Tensor t) { return vv::sum(swish(t, beta)); })(x);
  const vv::Tensor check = (swish(x + 1e-2, beta) - swish(x - 1e-2, beta)) / 2e-2;
  std::cout << slope << '\n' << check << '\n';
  return vv::max(vv::abs(slope - check)).item<float>() < 1e-3f ? 0 : 1;
}
