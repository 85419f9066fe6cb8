// Convolution weights in Winograd's domain.
#pragma once

#include <cstddef>

#include "backends/cpu/conv/conv_shape.h"
#include "backends/cpu/conv/winograd/kernels.h"

namespace varve::cpu::plain {

// Which of a convolution's weights [O, taps, I] multiply what: `terms` channels are summed over, `results` come out.
class WinogradFilters {
 public:
  enum class Use {
    forward,
    flipped,
    transposed
  };  // x to y; dy to dx by rotated taps; dy to dx by the transposed steps

  WinogradFilters(const ConvShape& shape, WinogradSize size, DType dtype, Use use);

  std::int64_t terms() const { return terms_; }
  std::int64_t results() const { return results_; }
  std::int64_t panels() const { return panels_; }
  // Of `panels` panels: all positions, and the memory to stage them.
  std::size_t bytes(std::int64_t panels) const;
  std::size_t staged_bytes(std::int64_t panels) const;

  // Transforms panels [first, first + count), by all threads unless this is one of many already.
  void transform(const void* weights, std::int64_t first, std::int64_t count, float* staged, float* filters) const;
  // [terms, panel] of one position, within what `transform` gave for `count` panels.
  const float* panel(const float* filters, std::int64_t count, std::int64_t position, std::int64_t number) const;

 private:
  std::int64_t position(std::int64_t panels) const;
  template <class T>
  void stage(const T* weights, std::int64_t first, std::int64_t count, float* staged) const;

  WinogradSize size_;
  DType dtype_;
  Use use_;
  WinogradKernels kernels_;
  std::int64_t taps_, terms_, results_, panels_;
};

}  // namespace varve::cpu::plain
