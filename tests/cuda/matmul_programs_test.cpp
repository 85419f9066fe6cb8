// Products with what follows them, as whole programs beside the reference's. They run where there is a GPU, if only an
// emulated one.
#include "cuda/on_cuda.h"

namespace varve {
namespace {

class CudaMatmul : public OnCuda {};

std::string product_on_cuda(const Function& f, const TensorList& in, double tolerance = 1e-5) {
  const Outcome cuda = run_on("cuda", f, in), reference = run_on("reference", f, in);
  EXPECT_EQ(cuda.results.size(), reference.results.size());
  for (std::size_t i = 0; i < cuda.results.size(); ++i)
    expect_close(cuda.results[i], reference.results[i], "result " + std::to_string(i) + "\n" + cuda.text, tolerance);
  return cuda.text;
}

TEST_F(CudaMatmul, TakesBiasAndReluAlong) {
  for (const DType dtype : {f32, bf16, f16}) {
    const double tolerance = dtype == f32 ? 1e-5 : dtype == bf16 ? 1e-2 : 1e-3;
    const TensorList in = {values({9, 40}, 1).to(dtype), values({40, 33}, 2).to(dtype), values({33}, 3).to(dtype)};
    const auto product = [](const TensorList& t) { return matmul(t[0], t[1]); };
    const auto check = [&](const Function& f, const std::string& kernel) {
      expect_kernel(product_on_cuda(f, in, tolerance), kernel + "  <-");
    };
    check([&](const TensorList& t) { return TensorList{product(t)}; }, "matmul");
    check([&](const TensorList& t) { return TensorList{product(t) + t[2]}; }, "matmul+bias");
    check([&](const TensorList& t) { return TensorList{relu(product(t))}; }, "matmul+relu");
    check([&](const TensorList& t) { return TensorList{relu(t[2] + product(t))}; }, "matmul+bias+relu");
  }
}

TEST_F(CudaMatmul, LeavesWhatOthersRead) {
  const TensorList in = {values({9, 40}, 1), values({40, 33}, 2), values({33}, 3)};
  const Function f = [](const TensorList& t) {
    const Tensor y = matmul(t[0], t[1]) + t[2];
    return TensorList{y, matmul(relu(y), t[1], {.transpose_b = true})};
  };
  const auto program = detail::compile(f, {.device = "cuda"});
  const std::string text = detail::text(*program, in);
  expect_kernel(text, "matmul+bias  <-");
  expect_no_kernel(text, "relu  <-");
}

}  // namespace
}  // namespace varve
