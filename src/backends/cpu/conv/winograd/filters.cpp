#include "backends/cpu/conv/winograd/filters.h"

#include <algorithm>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/conv/winograd/tiles.h"

namespace varve::cpu::plain {

WinogradFilters::WinogradFilters(const ConvShape& s, WinogradSize size, DType dtype, Use use)
    : size_(size),
      dtype_(dtype),
      use_(use),
      kernels_(winograd_kernels(size, dtype)),
      taps_(s.taps()),
      terms_(use == Use::forward ? s.in_channels : s.out_channels),
      results_(use == Use::forward ? s.out_channels : s.in_channels),
      panels_(align_up(results_, kernels_.panel) / kernels_.panel) {}

std::int64_t WinogradFilters::position(std::int64_t panels) const {
  return position_stride(panels * terms_ * kernels_.panel);
}

std::size_t WinogradFilters::bytes(std::int64_t panels) const {
  return float_bytes(size_.positions() * position(panels));
}

std::size_t WinogradFilters::staged_bytes(std::int64_t panels) const {
  return float_bytes(taps_ * terms_ * panels * kernels_.panel);
}

const float* WinogradFilters::panel(const float* filters, std::int64_t count, std::int64_t at,
                                    std::int64_t number) const {
  return filters + at * position(count) + number * terms_ * kernels_.panel;
}

// Weights [O, taps, I] as f32 [taps, terms, results], the results padded with zeros.
template <class T>
void WinogradFilters::stage(const T* weights, std::int64_t first, std::int64_t count, float* staged) const {
  constexpr std::int64_t kSquare = 16;  // transposed at a time: as many lines of the cache
  const std::int64_t width = count * kernels_.panel, begin = first * kernels_.panel;
  const std::int64_t filled = std::min(width, results_ - begin);
  const bool forward = use_ == Use::forward;
  const std::int64_t term = forward ? 1 : taps_ * results_, result = forward ? taps_ * terms_ : 1;
  const std::int64_t squares = (terms_ + kSquare - 1) / kSquare;
  parallel_for(taps_ * squares, 1, [&](std::int64_t from_step, std::int64_t to_step) {
    each_row(from_step, to_step, squares, [&](std::int64_t tap, std::int64_t square) {
      const std::int64_t k0 = square * kSquare, k1 = std::min(k0 + kSquare, terms_);
      const T* from = weights + (use_ == Use::flipped ? taps_ - 1 - tap : tap) * (forward ? terms_ : results_);
      float* to = staged + tap * terms_ * width;
      for (std::int64_t n0 = 0; n0 < width; n0 += kSquare)
        for (std::int64_t k = k0; k < k1; ++k)
          for (std::int64_t n = n0; n < n0 + kSquare; ++n)
            to[k * width + n] = n < filled ? cast_to<float>(element(from, k * term + (begin + n) * result)) : 0.f;
    });
  });
}

void WinogradFilters::transform(const void* weights, std::int64_t first, std::int64_t count, float* staged,
                                float* filters) const {
  if (dtype_ == bf16)
    stage(static_cast<const bfloat16*>(weights), first, count, staged);
  else
    stage(static_cast<const float*>(weights), first, count, staged);
  constexpr std::int64_t kGrain = 8;
  const std::int64_t panel = kernels_.panel, width = count * panel;
  parallel_for(count * terms_, kGrain, [&](std::int64_t begin, std::int64_t end) {
    each_row(begin, end, terms_, [&](std::int64_t p, std::int64_t k) {
      kernels_.filters(staged + k * width + p * panel, terms_ * width,
                       {filters + (p * terms_ + k) * panel, position(count), panel});
    });
  });
}

}  // namespace varve::cpu::plain
