// Kernels that work on rows: what is claimed together, and that the texts compile.
#include "cuda/claimed.h"
#include "varve/autodiff.h"
#include "varve/ops.h"

namespace varve::cuda {
namespace {

using Names = std::vector<std::string>;

// Teams of a part of a warp, a warp and a block, and rows that do not fit; and the types.
const TensorType kTypes[] = {{f32, {80, 10}},       {bf16, {4, 7, 1000}}, {f32, {4096, 10000}},
                             {bf16, {4096, 10000}}, {f16, {3, 40001}},    {f64, {5, 7}}};

Shape rows_of(const Shape& shape) { return Shape(Ints(shape.begin(), shape.end() - 1)); }

TEST(CudaRows, AStepsLossIsOneKernel) {
  for (const TensorType& type : kTypes)
    EXPECT_EQ(claimed(
                  [](const TensorList& in) {
                    const Tensor loss = cross_entropy(in[0], in[1]);
                    return TensorList{loss, gradients(loss, {in[0]})[0]};
                  },
                  {type, {i32, rows_of(type.shape)}}),
              Names{"rows cross_entropy+mean+gradient"})
        << type.str();
  expect_compiles("loss/cross_entropy.cu");
}

TEST(CudaRows, LossesAndGradientsApart) {
  const std::vector<TensorType> types = {{f32, {6, 5}}, {i64, {6}}, {f32, {6}}};
  EXPECT_EQ(
      claimed([](const TensorList& in) { return TensorList{cross_entropy(in[0], in[1], Reduction::none)}; }, types),
      Names{"rows cross_entropy"});
  EXPECT_EQ(
      claimed([](const TensorList& in) { return TensorList{cross_entropy(in[0], in[1], Reduction::sum)}; }, types),
      Names{"rows cross_entropy+mean"});
  EXPECT_EQ(claimed(
                [](const TensorList& in) {
                  const Tensor losses = cross_entropy(in[0], in[1], Reduction::none);
                  return TensorList{losses, gradients(sum(losses * in[2]), {in[0]})[0]};
                },
                types),
            Names{"rows cross_entropy+gradient"});
  expect_compiles("loss/cross_entropy.cu");
}

TEST(CudaRows, Softmax) {
  for (const TensorType& type : kTypes)
    claimed([](const TensorList& in) { return TensorList{softmax(in[0], -1)}; }, {type});
  claimed([](const TensorList& in) { return TensorList{log_softmax(in[0], -1)}; }, {kTypes[0]});
  EXPECT_EQ(claimed(
                [](const TensorList& in) {
                  const Tensor y = softmax(in[0], -1);
                  return TensorList{gradients(sum(y * in[1]), {in[0]})[0]};
                },
                {{f32, {3, 2, 37}}, {f32, {3, 2, 37}}}),
            (Names{"rows softmax", "rows softmax_grad"}));
  expect_compiles("norm/softmax.cu");
}

TEST(CudaRows, NormsWithTheirAdditions) {
  for (const TensorType& type : {TensorType{f32, {16, 256, 512}}, TensorType{bf16, {16, 256, 512}},
                                 TensorType{f64, {5, 3}}, TensorType{f16, {40, 5000}}}) {
    const TensorType gain{type.dtype == f64 ? f64 : f32, {type.shape.back()}};
    EXPECT_EQ(claimed(
                  [](const TensorList& in) {
                    const Tensor x = in[0] + in[1], y = layer_norm(x, in[2], in[3]);
                    const TensorList g = gradients(sum((x + y) * in[4]), {in[0], in[2], in[3]});
                    return TensorList{g[0], g[1], g[2], rms_norm(in[0], in[2])};
                  },
                  {type, type, gain, gain, type}),
              (Names{"rows add+layer_norm", "rows layer_norm_grad+add", "rows rms_norm"}))
        << type.str();
  }
  expect_compiles("norm/layer_norm");
}

}  // namespace
}  // namespace varve::cuda
