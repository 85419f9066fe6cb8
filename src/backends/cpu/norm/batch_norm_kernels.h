// Batch norm in training over a contiguous matrix [rows, channels] of f32 or bf16, statistics and parameters in f32.
// Forward: one pass for mean and variance, one that writes the result, with an addition and a ReLU that follow.
// Gradient: one pass for its two sums, one that writes it. Work is cut by sizes alone, so bits do not depend on the
// number of threads.
#pragma once

#include "backends/cpu/common/matrix.h"
#include "backends/cpu/norm/batch_norm_loops.h"

namespace varve::cpu {

// y = (x - mean)·scale/√(var + ε) + shift (+ added), and ReLU of that. y may be the memory of x or added.
struct BatchNormForward {
  const void *x = nullptr, *added = nullptr;
  const float *scale = nullptr, *shift = nullptr;
  bool relu = false;
  void* y = nullptr;
  float *mean = nullptr, *var = nullptr;
};

// dx may be the memory of x or of what the gradient is computed from; `passed` that of dy, more or output.
struct BatchNormBackward {
  const void* x = nullptr;
  GradientSource from;
  const float *scale = nullptr, *mean = nullptr, *var = nullptr;
  const float* shift = nullptr;  // for Passing::recomputed
  void* dx = nullptr;
  float *dscale = nullptr, *dshift = nullptr;
  void* passed = nullptr;  // what passed the ReLU, for others who read it; always with `more`
};

class BatchNormKernel {
 public:
  BatchNormKernel(Matrix shape, DType dtype, double epsilon);
  std::size_t scratch_bytes() const;
  void forward(const BatchNormForward& args, void* scratch) const;
  void backward(const BatchNormBackward& args, void* scratch) const;

 private:
  struct Scratch;
  struct Slice;
  Slice slice(std::int64_t index) const;
  std::int64_t slices() const { return slices_ + (tail_ > 0 ? 1 : 0); }
  template <class F>
  void each_result(const Scratch& scratch, std::int64_t first, std::int64_t channels, F f) const;
  void finish_moments(const Scratch& scratch, float* mean, float* var) const;
  void finish_sums(const Scratch& scratch, const BatchNormBackward& args) const;
  void set_columns(const Scratch& scratch, const float* mean, const float* var, const float* scale,
                   const float* shift) const;
  template <class F>
  void each_slice(F f) const;
  bool nontemporal_stores(const BatchNormForward& args) const;

  Matrix shape_;
  DType dtype_;
  double epsilon_;
  BatchNormLoops loops_;
  std::int64_t repeats_;       // rows in a line: several where channels are few
  std::int64_t width_;         // of a line
  std::int64_t lines_, tail_;  // whole lines, and elements after them
  std::int64_t slices_;        // that the lines are cut into
};

}  // namespace varve::cpu
