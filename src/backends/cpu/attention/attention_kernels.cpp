#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/attention_kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/attention/attention_kernels.h"
#include "backends/cpu/attention/attention_panels.h"
#include "backends/cpu/attention/block_product-inl.h"
#include "backends/cpu/simd/math_exp-inl.h"
#include "backends/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

// Columns [4c, 4c + 4) of four rows become four rows of a panel.
HWY_INLINE void transpose_four(const float* from, std::int64_t stride, float* to) {
  const hn::CappedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> dw;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + stride);
  const auto c = hn::LoadU(d, from + 2 * stride), e = hn::LoadU(d, from + 3 * stride);
  const auto ab = hn::BitCast(dw, hn::InterleaveLower(d, a, b)), AB = hn::BitCast(dw, hn::InterleaveUpper(d, a, b));
  const auto ce = hn::BitCast(dw, hn::InterleaveLower(d, c, e)), CE = hn::BitCast(dw, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, ab, ce)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, ab, ce)), d, to + kPanel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, AB, CE)), d, to + 2 * kPanel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, AB, CE)), d, to + 3 * kPanel);
}

// rows [time][stride] to panels of 64 of them, each [column][64]. Rows and columns are whole in fours.
void transpose_panels(const float* rows, std::int64_t time, std::int64_t stride, float* panels) {
  for (std::int64_t t = 0; t < time; t += 4) {
    float* panel = panels + t / kPanel * kPanel * stride + t % kPanel;
    for (std::int64_t c = 0; c < stride; c += 4) transpose_four(rows + t * stride + c, stride, panel + c * kPanel);
  }
}

// C = A·B for a block of queries, where B stands in panels of 64 keys [depth][64]: each row as far as its tile sees.
void scores_product(const AttentionSizes& s, std::int64_t first, std::int64_t rows, const float* a, std::int64_t depth,
                    const float* panels, float* c, std::int64_t stride) {
  const std::int64_t padded = whole(depth);
  for (std::int64_t j = 0; j < s.seen(first + rows - 1); j += kPanel) {
    for (std::int64_t i = 0; i < rows; i += kTileRows) {
      const std::int64_t count = std::min(kTileRows, rows - i);
      const std::int64_t columns = std::min(s.seen(first + i + count - 1) - j, kPanel);
      if (columns <= 0) continue;
      rows_product({a + i * padded, padded, 1}, {panels + j * padded, kPanel}, count, columns, depth,
                   {c + i * stride + j, stride, false});
    }
  }
}

// C = A·B for a block of queries over the keys that each tile sees; B is [keys][columns].
void mixing_product(const AttentionSizes& s, std::int64_t first, std::int64_t rows, const float* a, std::int64_t stride,
                    const float* b, std::int64_t columns, float* c) {
  const std::int64_t padded = whole(columns);
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const std::int64_t count = std::min(kTileRows, rows - i);
    rows_product({a + i * stride, stride, 1}, {b, padded}, count, columns, s.seen(first + i + count - 1),
                 {c + i * padded, padded, false});
  }
}

// C += Aᵀ·B over the queries of a block that see each tile of keys; B is [queries][columns].
void collecting_product(const AttentionSizes& s, std::int64_t first, std::int64_t rows, const float* a,
                        std::int64_t stride, const float* b, std::int64_t columns, float* c) {
  const std::int64_t padded = whole(columns), seen = s.seen(first + rows - 1);
  for (std::int64_t j = 0; j < seen; j += kTileRows) {
    std::int64_t from = 0;
    if (s.causal) from = std::max<std::int64_t>(0, j - (s.keys - s.queries) - first);
    rows_product({a + from * stride + j, 1, stride}, {b + from * padded, padded}, std::min(kTileRows, seen - j),
                 columns, rows - from, {c + j * padded, padded, true});
  }
}

// exp(x - shift) in place over the first n, zeros up to `end`; returns their sum.
double exp_row(float* x, std::size_t n, std::size_t end, float shift) {
  const Floats d;
  const Vf s = hn::Set(d, shift);
  const double sum = sum_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf e = keep(exp(d, hn::Sub(hn::LoadU(d, x + i), s)), left);
    hn::StoreU(e, d, x + i);
    return e;
  });
  std::fill(x + n, x + end, 0.0f);
  return sum;
}

float most_of(const float* x, std::size_t n) { return max_row(x, n); }

// p = exp(score - lse) and ds = p·(dp - Σ p·dp) over the first n, zeros up to `end`.
void weights_row(float* p, float* ds, std::size_t n, std::size_t end, float lse) {
  const Floats d;
  const Vf shift = hn::Set(d, lse);
  const double sum = sum_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf e = keep(exp(d, hn::Sub(hn::LoadU(d, p + i), shift)), left);
    hn::StoreU(e, d, p + i);
    return keep(hn::Mul(e, hn::LoadU(d, ds + i)), left);
  });
  const Vf mean = hn::Set(d, static_cast<float>(sum));
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf g = hn::Mul(hn::LoadU(d, p + i), hn::Sub(hn::LoadU(d, ds + i), mean));
    hn::StoreU(keep(g, left), d, ds + i);
  });
  std::fill(p + n, p + end, 0.0f);
  std::fill(ds + n, ds + end, 0.0f);
}

void forward_block(const AttentionSizes& s, const AttentionHead& head, std::int64_t first, std::int64_t rows,
                   const ForwardScratch& at) {
  pack_rows(head.q, first, rows, s.depth, s.scale, at.q);
  scores_product(s, first, rows, at.q, s.depth, at.keys, at.scores, at.stride);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t seen = s.seen(first + i), end = whole(s.seen(first + rows - 1));
    float* row = at.scores + i * at.stride;
    const float most = seen > 0 ? most_of(row, static_cast<std::size_t>(seen)) : 0.0f;
    const double sum = exp_row(row, static_cast<std::size_t>(seen), static_cast<std::size_t>(end), most);
    at.factors[i] = seen > 0 ? static_cast<float>(1 / sum) : 0.0f;
    head.lse[first + i] = seen > 0 ? static_cast<float>(most + std::log(sum)) : 0.0f;
  }
  mixing_product(s, first, rows, at.scores, at.stride, at.values, s.width, at.out);
  unpack_rows(at.out, first, rows, s.width, {at.factors, 1}, head.out);
}

void forward(const AttentionSizes& s, const AttentionHead& head, std::int64_t first, std::int64_t last,
             const ForwardScratch& at) {
  const std::int64_t seen = s.seen(last - 1);
  pack_rows(head.k, 0, seen, s.depth, 1, at.values);  // a place to stand while it is transposed
  transpose_panels(at.values, whole(seen, 4), whole(s.depth), at.keys);
  pack_rows(head.v, 0, seen, s.width, 1, at.values);
  for (std::int64_t i = first; i < last; i += kQueryBlock)
    forward_block(s, head, i, std::min(kQueryBlock, last - i), at);
}

void backward_block(const AttentionSizes& s, const AttentionGradHead& head, std::int64_t first, std::int64_t rows,
                    const BackwardScratch& at) {
  pack_rows(head.dy, first, rows, s.width, 1, at.dy);
  pack_rows(head.q, first, rows, s.depth, s.scale, at.q);
  scores_product(s, first, rows, at.q, s.depth, at.keys, at.scores, at.stride);
  scores_product(s, first, rows, at.dy, s.width, at.values, at.dscores, at.stride);
  const std::int64_t end = whole(s.seen(first + rows - 1));
  for (std::int64_t i = 0; i < rows; ++i)
    weights_row(at.scores + i * at.stride, at.dscores + i * at.stride, static_cast<std::size_t>(s.seen(first + i)),
                static_cast<std::size_t>(end), head.lse[first + i]);
  collecting_product(s, first, rows, at.scores, at.stride, at.dy, s.width, at.dv);
  collecting_product(s, first, rows, at.dscores, at.stride, at.q, s.depth, at.dk);
  mixing_product(s, first, rows, at.dscores, at.stride, at.key_rows, s.depth, at.mixed);
  unpack_rows(at.mixed, first, rows, s.depth, {&s.scale, 0}, head.dq);
}

void backward(const AttentionSizes& s, const AttentionGradHead& head, const BackwardScratch& at) {
  pack_rows(head.v, 0, s.keys, s.width, 1, at.dv);  // a place to stand while it is transposed
  transpose_panels(at.dv, whole(s.keys, 4), whole(s.width), at.values);
  pack_rows(head.k, 0, s.keys, s.depth, 1, at.key_rows);
  transpose_panels(at.key_rows, whole(s.keys, 4), whole(s.depth), at.keys);
  std::fill_n(at.dk, s.keys * whole(s.depth), 0.0f);
  std::fill_n(at.dv, s.keys * whole(s.width), 0.0f);
  for (std::int64_t i = 0; i < s.queries; i += kQueryBlock)
    backward_block(s, head, i, std::min(kQueryBlock, s.queries - i), at);
  const float one = 1;
  unpack_rows(at.dk, 0, s.keys, s.depth, {&one, 0}, head.dk);
  unpack_rows(at.dv, 0, s.keys, s.width, {&one, 0}, head.dv);
}

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(forward);
HWY_EXPORT(backward);

void attention_head(const AttentionSizes& sizes, const AttentionHead& head, std::int64_t first, std::int64_t last,
                    void* scratch) {
  HWY_DYNAMIC_DISPATCH(forward)(sizes, head, first, last, ForwardScratch(sizes, scratch));
}

void attention_grad_head(const AttentionSizes& sizes, const AttentionGradHead& head, void* scratch) {
  HWY_DYNAMIC_DISPATCH(backward)(sizes, head, BackwardScratch(sizes, scratch));
}

}  // namespace varve::cpu
#endif
