// Products with what follows them, as whole programs beside the reference's. They run where there is a GPU, if only an
// emulated one.
#include <cstdlib>

#include "backends/cpu_programs.h"
#include "varve/error.h"

namespace varve {
namespace {

bool has_cuda() {
  static const bool found = [] {
    try {
      return zeros({1}).to_vector<float>(), set_device("cuda"), set_device("cpu"), true;
    } catch (const Error&) {
      return false;
    }
  }();
  return found;
}

class CudaMatmul : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_cuda()) GTEST_SKIP() << "no GPU";
  }
  void TearDown() override { unsetenv("VARVE_WITHOUT"); }
};

// ---- bias and relu

std::string on_cuda(const Function& f, const Tensors& in, double tolerance = 1e-5) {
  const Outcome cuda = run_on("cuda", f, in), reference = run_on("reference", f, in);
  EXPECT_EQ(cuda.results.size(), reference.results.size());
  for (std::size_t i = 0; i < cuda.results.size(); ++i)
    expect_close(cuda.results[i], reference.results[i], "result " + std::to_string(i) + "\n" + cuda.text, tolerance);
  return cuda.text;
}

TEST_F(CudaMatmul, TakesBiasAndReluAlong) {
  for (const DType dtype : {f32, bf16, f16}) {
    const double tolerance = dtype == f32 ? 1e-5 : dtype == bf16 ? 1e-2 : 1e-3;
    const Tensors in = {values({9, 40}, 1).to(dtype), values({40, 33}, 2).to(dtype), values({33}, 3).to(dtype)};
    const auto product = [](const Tensors& t) { return matmul(t[0], t[1]); };
    const auto check = [&](const Function& f, const std::string& kernel) {
      expect_kernel(on_cuda(f, in, tolerance), kernel + "  <-");
    };
    check([&](const Tensors& t) { return Tensors{product(t)}; }, "matmul");
    check([&](const Tensors& t) { return Tensors{product(t) + t[2]}; }, "matmul+bias");
    check([&](const Tensors& t) { return Tensors{relu(product(t))}; }, "matmul+relu");
    check([&](const Tensors& t) { return Tensors{relu(t[2] + product(t))}; }, "matmul+bias+relu");
  }
}

TEST_F(CudaMatmul, LeavesWhatOthersRead) {
  const Tensors in = {values({9, 40}, 1), values({40, 33}, 2), values({33}, 3)};
  const Function f = [](const Tensors& t) {
    const Tensor y = matmul(t[0], t[1]) + t[2];
    return Tensors{y, matmul(relu(y), t[1], {.transpose_b = true})};
  };
  const auto program = detail::compile(f, {.device = "cuda"});
  const std::string text = detail::text(*program, in);
  expect_kernel(text, "matmul+bias  <-");
  expect_no_kernel(text, "relu  <-");
}

// ---- a step of training in the product

struct Step {
  std::int64_t batch = 9, in = 40, out = 33;
  DType weights = f32, products = f32;
  double decay = 0;
  bool known_rate = false, turned = false;
};

struct Stepped {
  std::vector<float> weights;
  std::string text;
};

Stepped step_on(const std::string& device, const Step& how) {
  Variable w("w", values(how.turned ? Shape{how.out, how.in} : Shape{how.in, how.out}, 2).to(how.weights));
  const Variable rate("rate", full({}, 0.05, how.weights), false);
  const Function f = [&](const Tensors& t) {
    const Tensor x = t[0].to(how.products), dy = t[1].to(how.products);
    const Tensor g = how.turned ? matmul(dy, x, {.transpose_a = true}) : matmul(x, dy, {.transpose_a = true});
    const Operand now = how.known_rate ? Operand(0.05) : Operand(rate);
    w.assign(sgd_update(w, g.to(how.weights), {}, now, {.weight_decay = how.decay}).parameter);
    return Tensors{};
  };
  const auto program = detail::compile(f, {.device = device});
  const Tensors in = {values({how.batch, how.in}, 1).to(how.products),
                      values({how.batch, how.out}, 3).to(how.products)};
  for (int i = 0; i < 3; ++i) call(*program, in);
  return {w.value().to(f32).to_vector<float>(), detail::text(*program, in)};
}

void expect_step(const Step& how) {
  const Stepped got = step_on("cuda", how);
  // The reference rounds the gradient of bf16 products; the step does not.
  expect_close(got.weights, step_on("reference", how).weights, got.text, how.products == f32 ? 1e-5 : 3e-3);
  expect_kernel(got.text, "matmul+sgd_update  <-");
  expect_no_kernel(got.text, "copied back");
}

TEST_F(CudaMatmul, AGradientThatOnlyThePlainStepReadsIsNeverWritten) {
  expect_step({});
  expect_step({.turned = true});
  expect_step({.decay = 0.1});
  expect_step({.known_rate = true});
  expect_step({.decay = 0.1, .known_rate = true});
  expect_step({.batch = 1, .in = 1, .out = 1});
  expect_step({.batch = 300, .in = 65, .out = 130});
  expect_step({.weights = f64, .products = f64});
}

TEST_F(CudaMatmul, MasterWeightsTakeTheGradientOfNarrowProductsUnrounded) {
  expect_step({.products = bf16});
  expect_step({.products = f16, .decay = 0.1});
}

TEST_F(CudaMatmul, TheStepCanBeLeftOut) {
  setenv("VARVE_WITHOUT", "update-in-gemm", 1);
  Variable w("w", values({4, 5}, 2));
  const Function f = [&](const Tensors& t) {
    w.assign(sgd_update(w, matmul(t[0], t[1], {.transpose_a = true}), {}, 0.1).parameter);
    return Tensors{};
  };
  const auto program = detail::compile(f, {.device = "cuda"});
  expect_no_kernel(detail::text(*program, {values({3, 4}, 1), values({3, 5}, 3)}), "matmul+sgd_update  <-");
}

}  // namespace
}  // namespace varve
