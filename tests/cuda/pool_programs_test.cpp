// Pooling with what stands beside it, as whole programs: which kernels take it, and that they agree with the reference.
#include "cuda/on_cuda.h"

namespace varve {
namespace {

using CudaPool = OnCuda;

// A layer's end: bias, ReLU, pooling and maybe dropout, and the gradients of image and bias.
Function layer(const PoolOptions& options, double rate, bool with_bias = true) {
  return [=](const TensorList& in) {
    const Tensor x = relu(with_bias ? in[0] + in[1] : in[0]);
    Tensor y = max_pool2d(x, options);
    if (rate > 0) y = dropout(y, rate, {.seed = 3, .stream = "drop", .counter = in[2]});
    const TensorList g = gradients(sum(y * y), {in[0], in[1]});
    return TensorList{y, g[0], with_bias ? g[1] : y};
  };
}

struct PoolCase {
  std::string name;
  PoolOptions options;
  Shape image;
  DType dtype = f32;
};

class CudaMaxPool : public CudaPool, public testing::WithParamInterface<PoolCase> {};

TEST_P(CudaMaxPool, WithItsNeighbours) {
  const PoolCase& c = GetParam();
  const double tolerance = c.dtype == bf16 ? 2e-2 : 1e-5;
  const TensorList in = {values(c.image, 1).to(c.dtype), values({c.image.back()}, 2).to(c.dtype), full_int({}, 7, i64)};
  const std::string dropped = same_as_reference(layer(c.options, 0.25), in, tolerance);
  expect_kernel(dropped, "cuda bias+relu+max_pool2d+dropout  <-");
  expect_kernel(dropped, "cuda dropout+max_pool2d_grad+relu_grad+bias_grad  <-");
  const std::string plain = same_as_reference(layer(c.options, 0), in, tolerance);
  expect_kernel(plain, "cuda bias+relu+max_pool2d  <-");
  expect_kernel(plain, "cuda max_pool2d_grad+relu_grad+bias_grad  <-");
}

const PoolOptions kPlain{}, kOverlapping{.window = {3, 3}, .stride = {2, 2}},
    kPadded{.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
    kEverywhere{.window = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}, kGaps{.window = {2, 1}, .stride = {3, 4}},
    kHanging{.window = {3, 2}, .stride = {2, 2}, .padding = {1, 0}, .ceil_mode = true};

INSTANTIATE_TEST_SUITE_P(
    Windows, CudaMaxPool,
    testing::Values(PoolCase{"plain", kPlain, {3, 8, 6, 8}}, PoolCase{"plainBf16", kPlain, {2, 8, 6, 16}, bf16},
                    PoolCase{"odd", kPlain, {2, 7, 9, 5}}, PoolCase{"wide", kPlain, {2, 4, 4, 300}},
                    PoolCase{"overlapping", kOverlapping, {2, 9, 11, 12}},
                    PoolCase{"overlappingBf16", kOverlapping, {2, 9, 11, 8}, bf16},
                    PoolCase{"padded", kPadded, {2, 8, 8, 4}}, PoolCase{"everywhere", kEverywhere, {2, 5, 6, 8}},
                    PoolCase{"gaps", kGaps, {2, 7, 9, 4}}, PoolCase{"hanging", kHanging, {2, 6, 7, 8}},
                    PoolCase{"double", kOverlapping, {1, 7, 7, 3}, f64}, PoolCase{"many", kPlain, {64, 16, 16, 32}},
                    PoolCase{"strips", kPadded, {4, 65, 33, 512}}),
    [](const auto& chosen) { return chosen.param.name; });

TEST_F(CudaPool, WindowsOfAnySize) {
  const PoolOptions large{.window = {5, 6}, .stride = {2, 3}, .padding = {2, 1}}, apart{.window = {9, 9}};
  for (const PoolOptions& options : {large, apart}) {
    const Function f = [&](const TensorList& in) {
      const Tensor y = max_pool2d(in[0], options);
      return TensorList{y, gradients(sum(y * y), {in[0]})[0]};
    };
    same_as_reference(f, {values({2, 19, 18, 6}, 1)});
  }
}

TEST_F(CudaPool, OfAViewThatBeginsAnywhere) {
  const Function f = [](const TensorList& in) {
    const Tensor x = reshape(slice(in[0], {{1, 1 + 2 * 6 * 6 * 8}}), {2, 6, 6, 8});
    const Tensor y = max_pool2d(x), z = avg_pool2d(x);
    const TensorList g = gradients(sum(y * y) + sum(z * z), {in[0]});
    return TensorList{y, z, g[0]};
  };
  same_as_reference(f, {values({2 * 6 * 6 * 8 + 1}, 1)});
}

TEST_F(CudaPool, DropoutWithWhatFollows) {
  const Function f = [](const TensorList& in) {
    const Tensor dropped = dropout(in[0], 0.4, {.seed = 5, .stream = "a", .counter = in[2]}) + in[1];
    const Tensor active = dropout(relu(in[1]), 0.5, {.seed = 5, .stream = "b", .counter = in[2]});
    return TensorList{dropped, gradients(sum(active * active), {in[1]})[0]};
  };
  for (const DType dtype : {f32, f64, bf16}) {
    const std::string text = same_as_reference(
        f, {values({33, 17}, 1).to(dtype), values({33, 17}, 2).to(dtype), full_int({}, 7, i64)}, 1e-2);
    expect_kernel(text, "cuda dropout+add  <-");
    expect_kernel(text, "cuda dropout+relu_grad  <-");
  }
}

}  // namespace
}  // namespace varve
