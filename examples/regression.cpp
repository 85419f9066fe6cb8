// A line through noisy points: in closed form, and by gradient descent, with the curvature of the loss as a check.
#include <varve/varve.h>

#include <cmath>
#include <iostream>

namespace vv = varve;

int main() {
  const vv::Tensor x = vv::linspace(-1, 1, 200);
  const vv::Tensor y = 3 * x + 0.5 + 0.1 * vv::normal({200}, {.seed = 4});

  // In closed form: slope = cov(x, y) / var(x).
  const vv::Tensor dx = x - vv::mean(x), dy = y - vv::mean(y);
  const float slope = (vv::mean(dx * dy) / vv::mean(dx * dx)).item<float>();

  // By descent. Nothing is compiled here: the loop is plain lazy code, evaluated a step at a time.
  vv::Variable a("a", vv::tensor(0.f)), b("b", vv::tensor(0.f));
  for (int i = 0; i < 300; ++i) {
    auto [loss, grads] = vv::value_and_grad([&] { return vv::mse_loss(a * x + b, y); }, {a, b});
    a.assign(a - 0.3 * grads[0]);
    b.assign(b - 0.3 * grads[1]);
  }

  // The loss is a parabola in a, so its second derivative is 2 · mean(x²) everywhere.
  auto loss_of = [&](vv::Tensor t) { return vv::mse_loss(t * x + b, y); };
  const vv::Tensor curvature = vv::grad([&](vv::Tensor t) { return vv::grad(loss_of)(t); })(a);

  std::cout << "y = " << a.value().item<float>() << " x + " << b.value().item<float>() << '\n'
            << "in closed form the slope is " << slope << '\n'
            << "curvature " << curvature.item<float>() << " = " << (2 * vv::mean(x * x)).item<float>() << '\n';
  return std::abs(a.value().item<float>() - slope) < 1e-3f ? 0 : 1;
}
