// Attention and its gradient on the GPU beside the reference: lengths and head sizes that fit no tile, operands that
// lie anywhere.
#include "cuda/on_cuda.h"
#include "varve/autodiff.h"

namespace varve {
namespace {

class CudaAttentionRun : public OnCuda {};

struct Sizes {
  std::int64_t queries, keys, depth, width;
};

// `inside`: operands and result are [.., T, heads, D].
Function with_gradients(bool causal, bool inside) {
  return [causal, inside](const TensorList& in) {
    const auto transposed = [inside](const Tensor& x) { return inside ? transpose(x, {0, 2, 1, 3}) : x; };
    const Tensor y = transposed(
        attention(transposed(in[0]), transposed(in[1]), transposed(in[2]), {.causal = causal, .scale = 0.3}));
    const TensorList grads = gradients(sum((y * in[3]).to(f32)), {in[0], in[1], in[2]});
    return TensorList{y, grads[0], grads[1], grads[2]};
  };
}

TensorList operands(const Sizes& s, bool inside, DType dtype) {
  const auto shape = [&](std::int64_t time, std::int64_t columns) {
    return inside ? Shape{1, time, 2, columns} : Shape{1, 2, time, columns};
  };
  return {(values(shape(s.queries, s.depth), 1) * 2.0).to(dtype), (values(shape(s.keys, s.depth), 2) * 2.0).to(dtype),
          values(shape(s.keys, s.width), 3).to(dtype), values(shape(s.queries, s.width), 4).to(dtype)};
}

// As same_as_reference, with products rounded to TF32.
std::string rounded(const Function& f, const TensorList& in, double tolerance) {
  const auto program = detail::compile(f, {.device = "cuda", .tf32 = true});
  const Outcome reference = run_on("reference", f, in);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const TensorList results = call(*program, in);
    for (std::size_t i = 0; i < results.size(); ++i)
      expect_close(results[i].to(f32).to_vector<float>(), reference.results[i], "result " + std::to_string(i),
                   tolerance);
  }
  return detail::text(*program, in);
}

TEST_F(CudaAttentionRun, WithOrdinaryArithmetic) {
  const Sizes all[] = {{17, 17, 5, 5}, {49, 7, 3, 80}, {1, 130, 64, 64}, {65, 70, 80, 16}, {70, 70, 64, 64}};
  for (const DType dtype : {f32, f64, f16})
    for (const Sizes& s : all)
      for (const bool causal : {false, true})
        for (const bool inside : {false, true}) {
          if (dtype != f32 && (inside != causal || s.depth > 5)) continue;
          SCOPED_TRACE(testing::Message() << name(dtype) << " " << s.queries << " " << s.keys << " " << s.depth << " "
                                          << s.width << " " << causal << inside);
          const std::string text =
              same_as_reference(with_gradients(causal, inside), operands(s, inside, dtype), dtype == f16 ? 5e-3 : 1e-5);
          expect_kernel(text, "heads attention  <-");
          expect_kernel(text, "heads attention_grad  <-");
          expect_no_kernel(text, "copy");
        }
}

TEST_F(CudaAttentionRun, OnTensorCores) {
  const Sizes all[] = {{1, 130, 64, 64},    {100, 100, 64, 64}, {70, 130, 32, 32},
                       {100, 70, 128, 128}, {40, 150, 64, 64},  {33, 16, 32, 32},  // one warp has all keys
                       {130, 40, 64, 64},   {150, 256, 64, 64},                    // eight warps
                       {20, 300, 64, 64},   {20, 140, 128, 128}};                  // too many for one block
  for (const Sizes& s : all)
    for (const bool causal : {false, true})
      for (const bool inside : {false, true}) {
        SCOPED_TRACE(testing::Message() << s.queries << " " << s.keys << " " << s.depth << " " << causal << inside);
        const Function f = with_gradients(causal, inside);
        for (const std::string& text :
             {same_as_reference(f, operands(s, inside, bf16), 3e-2), rounded(f, operands(s, inside, f32), 4e-3)}) {
          expect_kernel(text, "tensor attention  <-");
          expect_kernel(text, "tensor attention_grad  <-");
        }
      }
}

// Queries, keys and values are slices of one projection, at any place of it; their gradients are written where their
// join wants them.
TEST_F(CudaAttentionRun, SlicesOfOneProjection) {
  for (const DType dtype : {f32, bf16})
    for (const std::int64_t before : {0, 1, 8})
      for (const std::int64_t depth : {64, 20}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << before << " " << depth);
        const auto f = [=](const TensorList& in) {
          const Tensor x = slice(in[0], {{0, 2}, {0, 70}, {before, before + 6 * depth}});
          const TensorList parts = split(x, 3, 2);
          const auto heads = [=](const Tensor& z) { return transpose(reshape(z, {2, 70, 2, depth}), {0, 2, 1, 3}); };
          const Tensor mixed = attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {.causal = true});
          const Tensor y = reshape(transpose(mixed, {0, 2, 1, 3}), {2, 70, 2 * depth});
          return TensorList{y, gradients(sum((y * in[1]).to(f32)), {in[0]})[0]};
        };
        const std::string text = same_as_reference(
            f, {values({2, 70, before + 6 * depth}, 1).to(dtype), values({2, 70, 2 * depth}, 2).to(dtype)},
            dtype == f32 ? 1e-5 : 2e-2);
        expect_kernel(text, "attention_grad+concat");
      }
}

}  // namespace
}  // namespace varve
