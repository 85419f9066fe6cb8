// Attention on tensor cores.
#include "backends/cuda/attention.h"
#include "backends/cuda/context.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

// How rows are shared, as kernels/attention_tensor.cu has it.
struct Sharing {
  int warps = 2, tiles = 2;  // of 16 rows, for each warp
  int inner = 64;            // rows that pass by at a time

  int rows() const { return 16 * tiles * warps; }
  std::size_t row_bytes(const AttentionSizes& sizes) const {
    return static_cast<std::size_t>(sizes.depth) * size_of(sizes.dtype) + 16;
  }
  std::size_t outer_tile(const AttentionSizes& sizes) const {
    return static_cast<std::size_t>(rows()) * row_bytes(sizes);
  }
  // Two of two tiles.
  std::size_t stages(const AttentionSizes& sizes) const {
    return 4 * static_cast<std::size_t>(inner) * row_bytes(sizes);
  }
};

// Registers are what limits: wide heads have more sums, gradients more scores.
Sharing sharing_for(const AttentionSizes& sizes, AttentionPass pass) {
  if (sizes.depth > 64) return {.warps = 4, .tiles = 1, .inner = 32};
  return {.inner = pass == AttentionPass::forward ? 64 : 32};
}

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
  const Sharing sharing = sharing_for(sizes, pass);
  Constants constants = attention_constants(sizes, pass);
  constants.insert(constants.end(), {{"INNER", std::to_string(sharing.inner)},
                                     {"WARPS", std::to_string(sharing.warps)},
                                     {"TILES", std::to_string(sharing.tiles)}});
  const bool forward = pass == AttentionPass::forward;
  const std::string text = cat(defines(constants), kernel_text("attention"), kernel_text("attention_tensor"),
                               kernel_text(forward ? "attention_tensor_forward" : "attention_tensor_grad"));
  const std::size_t outer_tile = sharing.outer_tile(sizes), stages = sharing.stages(sizes);
  const std::size_t statistics = 4 * static_cast<std::size_t>(sharing.inner) * sizeof(float);
  AttentionKernels kernels{.tile_queries = sharing.rows(),
                           .tile_keys = sharing.rows(),
                           .threads = 32 * sharing.warps,
                           .forward_shared = outer_tile + stages,
                           .queries_shared = 2 * outer_tile + stages,
                           .keys_shared = 2 * outer_tile + stages + statistics};
  if (forward) {
    kernels.forward = Function("attention", text);
  } else {
    kernels.grad_queries = Function("attention_grad_queries", text);
    kernels.grad_keys = Function("attention_grad_keys", text);
  }
  return kernels;
}

}  // namespace varve::cuda
