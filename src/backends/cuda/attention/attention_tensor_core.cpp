// Attention on tensor cores.
#include <algorithm>
#include <optional>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/device/context.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

// How rows are shared, as attention/attention_tensor_core.cuh has it.
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

// One block for a head, as attention/attention_tensor_core_grad_whole.cu has it.
struct WholeSharing {
  int warps, tiles;
  int inner = 32, slots = 4;
  int columns = 16;

  std::size_t shared(const AttentionSizes& sizes) const {
    const auto rows = [&](int count, std::int64_t columns_of) {
      return static_cast<std::size_t>(count) * (static_cast<std::size_t>(columns_of) * size_of(sizes.dtype) + 16);
    };
    const int keys = 16 * tiles * warps;
    const std::size_t statistics = 2 * static_cast<std::size_t>(inner) * 2 * sizeof(float);
    return rows(2 * keys + 3 * slots * inner, sizes.depth) + rows(2 * keys, inner) + rows(16 * warps, columns) +
           statistics;
  }
};

// If the sums over a head's keys fit into the registers of a block, and the rest into its shared memory.
std::optional<WholeSharing> whole_sharing(const AttentionSizes& sizes) {
  if (sizes.dtype != bf16) return std::nullopt;
  const int tiles = sizes.depth > 64 ? 1 : 2, most = sizes.depth > 32 ? 8 : 12;
  const std::int64_t keys = 16 * tiles, warps = (sizes.problem.keys + keys - 1) / keys;
  if (warps > most) return std::nullopt;
  WholeSharing sharing{.warps = static_cast<int>(warps), .tiles = tiles};
  while (2 * sharing.columns <= std::min(sizes.depth, sharing.inner / 16 * sizes.depth / warps)) sharing.columns *= 2;
  constexpr std::size_t kPointers = 8 * sizeof(void*);  // to heads, beside that
  if (sharing.shared(sizes) + kPointers > gpu().shared_bytes) return std::nullopt;
  return sharing;
}

AttentionKernels whole_gradient(const AttentionSizes& sizes, const WholeSharing& sharing) {
  Constants constants = attention_constants(sizes, AttentionPass::gradient_with_result);
  constants.insert(constants.end(), {{"INNER", std::to_string(sharing.inner)},
                                     {"WARPS", std::to_string(sharing.warps)},
                                     {"TILES", std::to_string(sharing.tiles)},
                                     {"SLOTS", std::to_string(sharing.slots)},
                                     {"COLUMNS", std::to_string(sharing.columns)}});
  AttentionKernels kernels{.threads = 32 * sharing.warps, .grad_shared = sharing.shared(sizes)};
  kernels.grad = Function("attention_grad", {"attention/attention_tensor_core_grad_whole.cu", defines(constants)});
  return kernels;
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
  if (pass == AttentionPass::gradient_with_result)
    if (const auto sharing = whole_sharing(sizes)) return whole_gradient(sizes, *sharing);
  const Sharing sharing = sharing_for(sizes, pass);
  Constants constants = attention_constants(sizes, pass);
  constants.insert(constants.end(), {{"INNER", std::to_string(sharing.inner)},
                                     {"WARPS", std::to_string(sharing.warps)},
                                     {"TILES", std::to_string(sharing.tiles)}});
  const bool forward = pass == AttentionPass::forward;
  const KernelText text{
      forward ? "attention/attention_tensor_core_forward.cu" : "attention/attention_tensor_core_grad.cu",
      defines(constants)};
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
