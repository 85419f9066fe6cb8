// Batch norm and convolutions with what surrounds them, as whole programs beside the reference's. They run where there
// is a GPU, if only an emulated one; texts compile without.
#include "cuda/claimed.h"
#include "cuda/on_cuda.h"
#include "varve/autodiff.h"
#include "varve/error.h"

namespace varve {
namespace {

std::string on_cuda(const Function& f, const TensorList& in, double tolerance) {
  const Outcome cuda = run_on("cuda", f, in), reference = run_on("reference", f, in);
  EXPECT_EQ(cuda.results.size(), reference.results.size());
  for (std::size_t i = 0; i < cuda.results.size(); ++i)
    expect_close(cuda.results[i], reference.results[i], "result " + std::to_string(i) + "\n" + cuda.text, tolerance);
  return cuda.text;
}

TensorList with_gradients(const TensorList& in, const Tensor& result) {
  TensorList all = gradients(sum(square(result.to(f32)) * 0.01), in);
  all.push_back(result);
  return all;
}

// in: x, scale, shift, another like x
TensorList norm_and_relu(const TensorList& in) {
  return with_gradients(in, relu(batch_norm_train(in[0], in[1], in[2]).y) * in[3]);
}

// The sum passes the ReLU, and its gradient is wanted by both branches.
TensorList residual_block(const TensorList& in) {
  const Tensor y = relu(batch_norm_train(in[0], in[1], in[2]).y + in[3] * 2);
  return with_gradients(in, y * in[0] + y * in[3]);
}

// The first block of a stage of a residual network: two norms are added.
TensorList two_norms(const TensorList& in) {
  const Tensor y = relu(batch_norm_train(in[0], in[1], in[2]).y + batch_norm_train(in[3], in[2], in[1]).y);
  return with_gradients(in, y * in[0] + y * in[3]);
}

struct Case {
  Shape shape;
  DType dtype;
  double offset = 0;
};

// Whole vectors and odd channels, several slices and parts, one row, far from zero.
const Case kCases[] = {{{1100, 64}, f32}, {{1100, 64}, bf16},    {{60, 5, 2, 68}, f32}, {{300, 70}, f32},
                       {{300, 3}, f16},   {{3, 2, 200}, bf16},   {{900, 16}, f64},      {{2, 5}, f32},
                       {{1, 4}, f32},     {{700, 12}, f32, 1000}};

TensorList inputs_of(const Case& c) {
  const Shape channels{c.shape.back()};
  const DType parameters = c.dtype == f64 ? f64 : f32;
  return {(values(c.shape, 1) + c.offset).to(c.dtype), (values(channels, 2) + 1.5).to(parameters),
          values(channels, 3).to(parameters), values(c.shape, 4).to(c.dtype)};
}

TEST(CudaBatchNorm, TakesAlongWhatSurroundsIt) {
  if (!has_cuda()) GTEST_SKIP() << no_cuda();
  for (const Case& c : kCases) {
    const double tolerance = c.dtype == bf16 ? 2e-2 : c.dtype == f16 ? 3e-3 : c.offset != 0 ? 2e-3 : 2e-5;
    const std::string plain = on_cuda(norm_and_relu, inputs_of(c), tolerance);
    expect_kernel(plain, "cuda batch_norm+relu");
    expect_kernel(plain, "cuda batch_norm gradient+relu_grad");
    const std::string block = on_cuda(residual_block, inputs_of(c), tolerance);
    expect_kernel(block, "cuda batch_norm+add+relu");
    expect_kernel(block, "cuda batch_norm gradient+add+relu_grad");
    const std::string two = on_cuda(two_norms, inputs_of(c), c.dtype == bf16 ? 3e-2 : tolerance);
    expect_kernel(two, "cuda batch_norm+batch_norm+add+relu");
    expect_no_kernel(two, "cuda batch_norm  <-");
  }
}

// So many rows that each block has many bands of them, and an end within one.
TEST(CudaBatchNorm, ManyRows) {
  if (!has_cuda()) GTEST_SKIP() << no_cuda();
  const std::int64_t parts = std::max(1, cuda::gpu().multiprocessors / 2);
  on_cuda(residual_block, inputs_of({{16 * 64 * parts + 9, 65}, f32}), 1e-4);
}

// A ReLU's gradient wants to know only what was above 0: bits, also where vectors of numbers cannot be read.
TEST(CudaBatchNorm, SignsAreReadAsBits) {
  if (!has_cuda()) GTEST_SKIP() << no_cuda();
  for (const DType dtype : {f32, bf16}) {
    TensorList in = inputs_of({{2100, 64}, dtype});
    const double tolerance = dtype == f32 ? 2e-5 : 2e-2;
    const auto is_read_as_bits = [](const std::string& text) {
      EXPECT_NE(text.find("is read as bits"), std::string::npos) << text;
    };
    is_read_as_bits(on_cuda(residual_block, in, tolerance));
    in[0] = concat({values({1}, 5).to(dtype), reshape(in[0], {-1})}, 0);
    const auto from_the_second_number = [](TensorList t) {
      t[0] = reshape(t[0].slice({{1, 1 + 2100 * 64}}), {2100, 64});
      return residual_block(t);
    };
    is_read_as_bits(on_cuda(from_the_second_number, in, tolerance));
  }
}

TEST(CudaBatchNorm, LeavesWhatOthersRead) {
  if (!has_cuda()) GTEST_SKIP() << no_cuda();
  const std::string text = on_cuda(
      [](const TensorList& in) {
        const Tensor y = batch_norm_train(in[0], in[1], in[2]).y;
        return TensorList{y, relu(y), relu(y + mean(y))};
      },
      {values({30, 12}, 1), values({12}, 2), values({12}, 3)}, 1e-5);
  expect_no_kernel(text, "batch_norm+");
}

TEST(CudaConv, TakesBiasAndReluAlong) {
  if (!has_cuda()) GTEST_SKIP() << no_cuda();
  for (const DType dtype : {f32, bf16, f16}) {
    const TensorList in = {values({2, 9, 8, 5}, 1).to(dtype), values({12, 3, 3, 5}, 2).to(dtype),
                           values({12}, 3).to(dtype)};
    const Conv2dOptions options{.stride = {2, 1}, .padding = {Padding(1, 0), Padding(2, 1)}};
    const auto conv = [&](const TensorList& t) { return conv2d(t[0], t[1], options); };
    const double tolerance = dtype == f32 ? 1e-5 : dtype == bf16 ? 1e-2 : 1e-3;
    expect_kernel(on_cuda([&](const TensorList& t) { return TensorList{conv(t) + t[2]}; }, in, tolerance),
                  "conv2d+bias  <-");
    expect_kernel(on_cuda([&](const TensorList& t) { return TensorList{relu(t[2] + conv(t))}; }, in, tolerance),
                  "conv2d+bias+relu  <-");
    on_cuda([&](const TensorList& t) { return with_gradients(t, relu(conv(t) + t[2])); }, in, 2 * tolerance);
  }
}

TEST(CudaBatchNorm, TextsCompile) {
  if (has_cuda()) GTEST_SKIP() << "compiled when they run";
  for (const Case& c : {kCases[1], kCases[6]}) {
    const TensorType x{c.dtype, c.shape}, parameter{c.dtype == f64 ? f64 : f32, {c.shape.back()}};
    cuda::claimed(residual_block, {x, parameter, parameter, x});
    cuda::claimed(norm_and_relu, {x, parameter, parameter, x});
  }
  cuda::expect_compiles("norm/batch_norm");
}

}  // namespace
}  // namespace varve
