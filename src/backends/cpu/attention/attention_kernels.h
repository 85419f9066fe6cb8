// Attention of one head in f32, block by block of queries: scores live in a block that fits the cache and are never
// written to memory. Keys that a causal query must not see cost nothing. Bits depend on sizes alone, not on threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "varve/dtype.h"

namespace varve::cpu {

struct AttentionSizes {
  std::int64_t queries = 0, keys = 0;
  std::int64_t depth = 0, width = 0;  // of q and k; of v and the result
  float scale = 1;
  bool causal = false;  // query i sees keys up to i + keys - queries

  // Keys that query i sees.
  std::int64_t seen(std::int64_t query) const;
};

// A matrix of one head, [time, D], where it lies: f32 or bf16, distances in elements.
template <class Pointer>
struct HeadMatrix {
  Pointer data;
  std::int64_t row = 0, column = 1;
  DType dtype = DType::f32;
};
using HeadIn = HeadMatrix<const void*>;
using HeadOut = HeadMatrix<void*>;

// Bytes that one thread needs.
std::size_t attention_scratch(const AttentionSizes& sizes);
std::size_t attention_grad_scratch(const AttentionSizes& sizes);

// out = softmax(q·kᵀ·scale)·v and the logarithm of each sum of exponentials, for queries [first, last). A query that
// sees no key gives 0 and 0.
struct AttentionHead {
  HeadIn q, k, v;
  HeadOut out;
  float* lse;
};
void attention_head(const AttentionSizes& sizes, const AttentionHead& head, std::int64_t first, std::int64_t last,
                    void* scratch);

// The gradients of q, k and v from that of the result; scores are computed again.
struct AttentionGradHead {
  HeadIn q, k, v, dy;
  const float* lse;
  HeadOut dq, dk, dv;
};
void attention_grad_head(const AttentionSizes& sizes, const AttentionGradHead& head, void* scratch);

}  // namespace varve::cpu
