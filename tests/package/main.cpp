// A project that knows Varve only by find_package: a perceptron learns which side of a line a point lies on.
#include <varve/varve.h>

#include <iostream>

namespace vv = varve;

int main() {
  vv::Variable w("w", vv::zeros({2, 1})), b("b", vv::zeros({1}));
  const vv::Tensor x = vv::uniform({256, 2}, {.seed = 1}) * 2 - 1;
  const vv::Tensor side = vv::cast(vv::sum(x, {.axes = vv::Axes{1}, .keep = true}) > 0.1, vv::f32);

  auto step = vv::compile([&](vv::Tensor points, vv::Tensor targets) {
    auto [loss, grads] =
        vv::value_and_grad([&] { return vv::binary_cross_entropy(vv::linear(points, w, b), targets); }, {w, b});
    w.assign(w - 2 * grads[0]);
    b.assign(b - 2 * grads[1]);
    return loss;
  });
  for (int i = 0; i < 200; ++i) step(x, side);

  const vv::Tensor right = (vv::linear(x, w, b) > 0) == (side > 0);
  const double accuracy = vv::mean(vv::cast(right, vv::f32)).item<double>();
  std::cout << "accuracy " << accuracy << '\n';
  return accuracy > 0.95 ? 0 : 1;
}
