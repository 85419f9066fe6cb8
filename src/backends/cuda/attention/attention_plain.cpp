// Attention with ordinary arithmetic: any type, any size of heads that leaves room for a tile.
#include <algorithm>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/device/context.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

// As attention/attention_plain.cu divides its memory.
struct Shared {
  std::size_t depth_tile, width_tile, score_tile;

  Shared(const AttentionSizes& sizes, int tile) {
    const std::size_t element = size_of(sizes.dtype == f64 ? f64 : f32), pad = 16 / element;
    const auto rows = static_cast<std::size_t>(tile);
    const auto columns = [](std::int64_t n) { return static_cast<std::size_t>((n + 15) / 16 * 16); };
    depth_tile = rows * (columns(sizes.depth) + pad) * element;
    width_tile = rows * (columns(sizes.width) + pad) * element;
    score_tile = rows * (rows + pad) * element;
  }
  std::size_t forward() const { return 2 * depth_tile + width_tile + score_tile; }
  std::size_t grad_queries() const { return 2 * depth_tile + 2 * width_tile + score_tile; }
  std::size_t grad_keys() const { return grad_queries() + score_tile; }
};

}  // namespace

int plain_attention_tile(const AttentionSizes& sizes) {
  constexpr int kLargest = 64, kSmallest = 16;
  const std::int64_t longest = std::max(sizes.problem.queries, sizes.problem.keys);
  for (int tile = sizes.dtype == f64 ? kLargest / 2 : kLargest; tile >= kSmallest; tile /= 2)
    if ((tile == kSmallest || tile / 2 < longest) && Shared(sizes, tile).grad_keys() <= gpu().shared_bytes) return tile;
  return 0;
}

Constants attention_constants(const AttentionSizes& sizes, AttentionPass pass) {
  return {{"T", type_name(sizes.dtype)},          {"AXES", std::to_string(kHeadAxes)},
          {"DEPTH", std::to_string(sizes.depth)}, {"WIDTH", std::to_string(sizes.width)},
          {"CAUSAL", sizes.causal ? "1" : "0"},   {"HAS_Y", pass == AttentionPass::gradient_with_result ? "1" : "0"}};
}

AttentionKernels plain_attention(const AttentionSizes& sizes, AttentionPass pass) {
  const int tile = plain_attention_tile(sizes);
  Constants constants = attention_constants(sizes, pass);
  constants.emplace_back("TILE", std::to_string(tile));
  const KernelText text{"attention/attention_plain.cu", defines(constants)};
  const Shared shared(sizes, tile);
  AttentionKernels kernels{.tile_queries = tile,
                           .tile_keys = tile,
                           .threads = 256,
                           .forward_shared = shared.forward(),
                           .queries_shared = shared.grad_queries(),
                           .keys_shared = shared.grad_keys()};
  if (pass == AttentionPass::forward) {
    kernels.forward = Function("attention", text);
  } else {
    kernels.grad_queries = Function("attention_grad_queries", text);
    kernels.grad_keys = Function("attention_grad_keys", text);
  }
  return kernels;
}

}  // namespace varve::cuda
