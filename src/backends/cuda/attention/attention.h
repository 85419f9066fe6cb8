// Attention as kernels see it: sizes, and where the heads of each operand lie.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "backends/cuda/device/function.h"

namespace varve::cuda {

inline constexpr int kHeadAxes = 4;  // at most: [.., T, D] or [.., T, heads, D]

// These two as attention/attention.cuh has them.
struct HeadsOperand {
  const void* data = nullptr;
  std::array<std::int64_t, kHeadAxes> heads = {};
  std::int64_t row = 0, column = 0;
  std::int32_t aligned = 0;
};
struct HeadsProblem {
  std::array<std::int64_t, kHeadAxes> extents = {1, 1, 1, 1};
  std::int64_t heads = 1, queries = 0, keys = 0;
  double scale = 1;
};

// Where the heads of an operand lie, before its address is known.
class Heads {
 public:
  Heads() = default;
  Heads(const backend::Port& port, bool inside, std::int64_t first = 0);
  HeadsOperand at(const void* data) const;
  std::int64_t time() const { return time_; }
  const HeadsOperand& layout() const { return layout_; }
  const std::array<std::int64_t, kHeadAxes>& extents() const { return extents_; }

 private:
  HeadsOperand layout_;
  std::array<std::int64_t, kHeadAxes> extents_ = {1, 1, 1, 1};
  std::int64_t time_ = 0, first_ = 0;  // elements before the first one
  std::int64_t element_ = 4;           // bytes
};

// One attention, and how it is to be computed.
struct AttentionSizes {
  HeadsProblem problem;
  std::int64_t depth = 0, width = 0;
  DType dtype = f32;
  bool causal = false;
};

struct AttentionKernels {
  Function forward, grad_queries, grad_keys;
  Function grad;                                     // instead of these two, where there is one: a block for each head
  int tile_queries = 0, tile_keys = 0, threads = 0;  // of a block
  std::size_t forward_shared = 0, queries_shared = 0, keys_shared = 0, grad_shared = 0;
  std::int64_t query_blocks(const HeadsProblem& p) const { return blocks(p.queries, tile_queries) * p.heads; }
  std::int64_t key_blocks(const HeadsProblem& p) const { return blocks(p.keys, tile_keys) * p.heads; }

 private:
  static std::int64_t blocks(std::int64_t length, int tile) { return (length + tile - 1) / tile; }
};

enum class AttentionPass : std::uint8_t { forward, gradient, gradient_with_result };

// With ordinary arithmetic. 0: no tile is small enough.
int plain_attention_tile(const AttentionSizes& sizes);
AttentionKernels plain_attention(const AttentionSizes& sizes, AttentionPass pass);

// On tensor cores, bf16 or, where `tf32`, float rounded to it. Empty: they can; otherwise why not.
std::string tensor_attention_refusal(const AttentionSizes& sizes, AttentionPass pass, bool tf32);
AttentionKernels tensor_attention(const AttentionSizes& sizes, AttentionPass pass);

// What every text on attention begins with.
Constants attention_constants(const AttentionSizes& sizes, AttentionPass pass);

}  // namespace varve::cuda
