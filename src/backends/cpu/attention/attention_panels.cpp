#include "backends/cpu/attention/attention_panels.h"

#include <algorithm>

#include "backends/cpu/common/scratch.h"
#include "base/convert.h"

namespace varve::cpu {
namespace {

// Rows a power of two apart would fall into the same few sets of the cache.
std::int64_t scores_stride(const AttentionSizes& sizes) { return whole(sizes.keys, kPanel) + 16; }

float* take(Carver& carver, std::int64_t rows, std::int64_t columns) {
  return carver.take<float>(static_cast<std::size_t>(rows * columns));
}

// Scratch that is only measured; adding to a null pointer would be undefined.
void* nowhere() { return reinterpret_cast<void*>(kCacheLine); }

template <class T>
void pack(const HeadIn& from, std::int64_t first, std::int64_t rows, std::int64_t columns, float factor, float* to) {
  const std::int64_t padded = whole(columns);
  for (std::int64_t i = 0; i < rows; ++i, to += padded) {
    const T* row = static_cast<const T*>(from.data) + (first + i) * from.row;
    if (from.column == 1) {
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) to[j] = cast_to<float>(row[j]) * factor;
    } else {
      for (std::int64_t j = 0; j < columns; ++j) to[j] = cast_to<float>(row[j * from.column]) * factor;
    }
    std::fill(to + columns, to + padded, 0.0f);
  }
  std::fill_n(to, (whole(rows, 4) - rows) * padded, 0.0f);
}

template <class T>
void unpack(const float* from, std::int64_t first, std::int64_t rows, std::int64_t columns, RowFactors factors,
            const HeadOut& to) {
  for (std::int64_t i = 0; i < rows; ++i, from += whole(columns)) {
    T* row = static_cast<T*>(to.data) + (first + i) * to.row;
    const float factor = factors.data[i * factors.step];
    if (to.column == 1) {
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) row[j] = cast_to<T>(from[j] * factor);
    } else {
      for (std::int64_t j = 0; j < columns; ++j) row[j * to.column] = cast_to<T>(from[j] * factor);
    }
  }
}

}  // namespace

std::int64_t AttentionSizes::seen(std::int64_t query) const {
  return causal ? std::clamp<std::int64_t>(query + 1 + keys - queries, 0, keys) : keys;
}

void pack_rows(const HeadIn& from, std::int64_t first, std::int64_t rows, std::int64_t columns, float factor,
               float* to) {
  from.dtype == f32 ? pack<float>(from, first, rows, columns, factor, to)
                    : pack<bfloat16>(from, first, rows, columns, factor, to);
}

void unpack_rows(const float* from, std::int64_t first, std::int64_t rows, std::int64_t columns, RowFactors factors,
                 const HeadOut& to) {
  to.dtype == f32 ? unpack<float>(from, first, rows, columns, factors, to)
                  : unpack<bfloat16>(from, first, rows, columns, factors, to);
}

ForwardScratch::ForwardScratch(const AttentionSizes& s, void* scratch) : stride(scores_stride(s)) {
  std::byte* const begin = static_cast<std::byte*>(scratch);
  Carver carver(begin);
  const std::int64_t block = std::min(kQueryBlock, s.queries), time = whole(s.keys, kPanel);
  keys = take(carver, time, whole(s.depth));
  values = take(carver, time, whole(std::max(s.depth, s.width)));
  q = take(carver, whole(block, 4), whole(s.depth));
  scores = take(carver, block, stride);
  out = take(carver, block, whole(s.width));
  factors = take(carver, block, 1);
  bytes = static_cast<std::size_t>(carver.take<std::byte>(0) - begin);
}

BackwardScratch::BackwardScratch(const AttentionSizes& s, void* scratch) : stride(scores_stride(s)) {
  std::byte* const begin = static_cast<std::byte*>(scratch);
  Carver carver(begin);
  const std::int64_t block = whole(std::min(kQueryBlock, s.queries), 4), time = whole(s.keys, kPanel);
  keys = take(carver, time, whole(s.depth));
  key_rows = take(carver, time, whole(s.depth));
  values = take(carver, time, whole(s.width));
  q = take(carver, block, whole(s.depth));
  dy = take(carver, block, whole(s.width));
  scores = take(carver, block, stride);
  dscores = take(carver, block, stride);
  mixed = take(carver, block, whole(s.depth));
  dk = take(carver, time, whole(s.depth));
  dv = take(carver, time, whole(s.width));
  bytes = static_cast<std::size_t>(carver.take<std::byte>(0) - begin);
}

std::size_t attention_scratch(const AttentionSizes& sizes) { return ForwardScratch(sizes, nowhere()).bytes; }
std::size_t attention_grad_scratch(const AttentionSizes& sizes) { return BackwardScratch(sizes, nowhere()).bytes; }

}  // namespace varve::cpu
