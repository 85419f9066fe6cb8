// Attention: what is claimed together, and that the texts compile.
#include "cuda/claimed.h"
#include "varve/autodiff.h"
#include "varve/ops.h"

namespace varve::cuda {
namespace {

using Names = std::vector<std::string>;

TensorList with_gradients(const TensorList& in) {
  const Tensor y = attention(in[0], in[1], in[2], {.causal = true});
  TensorList results = gradients(sum(y * in[3]), {in[0], in[1], in[2]});
  results.push_back(y);
  return results;
}

TEST(CudaAttention, AndItsGradient) {
  for (const TensorType& type : {TensorType{f32, {2, 8, 256, 64}}, TensorType{bf16, {2, 8, 256, 40}},
                                 TensorType{f64, {3, 5, 7}}, TensorType{f16, {4, 100, 80}}})
    EXPECT_EQ(claimed(with_gradients, {type, type, type, type}), (Names{"heads attention", "heads attention_grad"}))
        << type.str();
  expect_compiles("attention/attention_plain.cu");
}

TEST(CudaAttention, OnTensorCores) {
  for (const DType dtype : {f32, bf16})
    for (const std::int64_t depth : {32, 64, 128}) {
      const TensorType type{dtype, {2, 3, 100, depth}};
      EXPECT_EQ(claimed(with_gradients, {type, type, type, type}, {.tf32 = true}),
                (Names{"tensor attention", "tensor attention_grad"}))
          << type.str();
    }
  expect_compiles("attention/attention_tensor_core_grad.cu");
  expect_compiles("attention/attention_tensor_core_forward.cu");
}

// One block makes the gradient of a head whose keys it can hold.
TEST(CudaAttention, GradientOfAWholeHead) {
  for (const std::int64_t depth : {32, 64, 128})
    for (const std::int64_t keys : {1, 128, 250}) {
      const TensorType queries{bf16, {2, 3, 100, depth}}, others{bf16, {2, 3, keys, depth}};
      EXPECT_EQ(claimed(with_gradients, {queries, others, others, queries}),
                (Names{"tensor attention", "tensor attention_grad"}));
    }
  expect_compiles("attention/attention_tensor_core_grad_whole.cu");
}

// Queries, keys and values are columns of one matrix, and so are their gradients.
TEST(CudaAttention, JoinedGradients) {
  const auto step = [](const TensorList& in) {
    const TensorList parts = split(in[0], 3, 2);
    const auto heads = [](const Tensor& x) { return transpose(reshape(x, {2, 19, 4, 8}), {0, 2, 1, 3}); };
    const Tensor y = attention(heads(parts[0]), heads(parts[1]), heads(parts[2]));
    return gradients(sum(transpose(y, {0, 2, 1, 3}) * in[1]), {in[0]});
  };
  EXPECT_EQ(claimed(step, {{f32, {2, 19, 96}}, {f32, {2, 19, 4, 8}}}),
            (Names{"heads attention", "heads attention_grad+concat"}));
}

}  // namespace
}  // namespace varve::cuda
