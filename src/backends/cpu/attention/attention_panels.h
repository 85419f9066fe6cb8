// How a head's matrices lie while attention works on them: dense f32 rows, whole in vectors, and the scratch they fill.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/attention/attention_kernels.h"

namespace varve::cpu {

inline constexpr std::int64_t kPanel = 64;       // keys that stand side by side
inline constexpr std::int64_t kQueryBlock = 48;  // queries whose scores are there at one time

constexpr std::int64_t whole(std::int64_t count, std::int64_t vector = 16) {
  return (count + vector - 1) / vector * vector;
}

// Rows [first, first + rows) times `factor`, dense, `columns` filled up to whole vectors with zeros; zero rows up to a
// multiple of four.
void pack_rows(const HeadIn& from, std::int64_t first, std::int64_t rows, std::int64_t columns, float factor,
               float* to);

struct RowFactors {
  const float* data;
  std::int64_t step;  // 0: one for all
};
void unpack_rows(const float* from, std::int64_t first, std::int64_t rows, std::int64_t columns, RowFactors factors,
                 const HeadOut& to);

// Pieces of one thread's scratch; `keys` and `values` are panels unless said otherwise.
struct ForwardScratch {
  ForwardScratch(const AttentionSizes& sizes, void* scratch);

  std::int64_t stride;  // between rows of scores
  float *keys, *values /* rows */, *q, *scores, *out, *factors;
  std::size_t bytes;
};

struct BackwardScratch {
  BackwardScratch(const AttentionSizes& sizes, void* scratch);

  std::int64_t stride;
  float *keys, *key_rows, *values, *q, *dy, *scores, *dscores, *mixed, *dk, *dv;
  std::size_t bytes;
};

}  // namespace varve::cpu
