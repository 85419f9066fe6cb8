// Attention on tensor cores.
#include "backends/cuda/attention.h"
#include "backends/cuda/context.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr int kRows = 64, kThreads = 128;

// Rows that pass by at a time: wide heads leave fewer registers for scores.
int inner_rows(const AttentionSizes& sizes) { return sizes.depth > 64 ? 32 : 64; }

}  // namespace

std::string tensor_attention_refusal(const AttentionSizes& sizes, AttentionPass pass, bool tf32) {
  if (gpu().major < 8) return "no tensor cores for bf16 and TF32";
  if (sizes.dtype != bf16 && sizes.dtype != f32) return name(sizes.dtype);
  if (sizes.dtype == f32 && !tf32) return "TF32 is not allowed";
  if (sizes.depth != sizes.width) return "values of another width";
  if (sizes.depth != 32 && sizes.depth != 64 && sizes.depth != 128) return cat("heads of ", sizes.depth, " columns");
  return pass == AttentionPass::gradient ? "the result is not at hand" : "";
}

AttentionKernels tensor_attention(const AttentionSizes& sizes, AttentionPass pass) {
  const int inner = inner_rows(sizes);
  Constants constants = attention_constants(sizes, pass);
  constants.emplace_back("INNER", std::to_string(inner));
  const bool forward = pass == AttentionPass::forward;
  const std::string text = cat(defines(constants), kernel_text("attention"), kernel_text("attention_tensor"),
                               kernel_text(forward ? "attention_tensor_forward" : "attention_tensor_grad"));
  const std::size_t row = static_cast<std::size_t>(sizes.depth) * size_of(sizes.dtype) + 16;
  const std::size_t outer_tile = kRows * row, stages = 4 * static_cast<std::size_t>(inner) * row;
  AttentionKernels kernels{
      .tile_queries = kRows,
      .tile_keys = kRows,
      .threads = kThreads,
      .forward_shared = outer_tile + stages,
      .queries_shared = 2 * outer_tile + stages,
      .keys_shared = 2 * outer_tile + stages + 4 * static_cast<std::size_t>(inner) * sizeof(float)};
  if (forward) {
    kernels.forward = Function("attention", text);
  } else {
    kernels.grad_queries = Function("attention_grad_queries", text);
    kernels.grad_keys = Function("attention_grad_keys", text);
  }
  return kernels;
}

}  // namespace varve::cuda
