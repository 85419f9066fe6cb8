// Tensors: recorded when you write them, computed when you read them. Shapes are checked at once.
#include <varve/varve.h>

#include <iostream>

namespace vv = varve;

int main() {
  const vv::Tensor a = vv::tensor({{1.f, 2.f}, {3.f, 4.f}});  // f32 [2, 2]
  const vv::Tensor b = vv::exp(a) + 1;                        // nothing is computed yet
  std::cout << "exp(a) + 1 =\n" << b << '\n';                 // now it is

  // Rows and columns broadcast, as in NumPy.
  const vv::Tensor table = vv::arange(3).reshape({3, 1}) * 10 + vv::arange(4);
  std::cout << "a table\n" << table << "\nits second column " << table.slice({{}, {1, 2}}).reshape({3}) << '\n';

  // A random tensor depends on its seed and its stream alone: not on what was drawn before it.
  const vv::Tensor draws = vv::normal({100000}, {.seed = 1, .stream = "draws"});
  const float mean = vv::mean(draws).item<float>();
  const bool again = vv::all(draws == vv::normal({100000}, {.seed = 1, .stream = "draws"})).item<bool>();
  std::cout << "mean of 100000 draws " << mean << ", drawn again the same: " << std::boolalpha << again << '\n';

  // The slope of a function, without a formula for it.
  const vv::Tensor slope = vv::grad([](vv::Tensor x) { return vv::sum(x * x * x); })(a);
  std::cout << "d(x³) =\n" << slope << '\n';

  bool refused = false;
  try {
    vv::matmul(a, table);
  } catch (const vv::Error& e) {
    refused = true;
    std::cout << "an error: " << e.what() << '\n';
  }
  const bool right = vv::all(slope == 3 * a * a).item<bool>() && table.to_vector<std::int64_t>()[6] == 12;
  return right && again && refused && mean > -0.02f && mean < 0.02f ? 0 : 1;
}
