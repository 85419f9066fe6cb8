// Batch norm in training over a contiguous matrix [rows, channels], statistics and parameters in f32, or f64 for f64.
// Forward: one pass for mean and variance, one that writes the result, with an addition and a ReLU that follow.
// Gradient: one pass for its two sums, one that writes it.
#pragma once

#include <optional>

#include "backends/cuda/device/function.h"

namespace varve::cuda {

// What the ReLU after a norm lets pass in the backward pass.
enum class Passing {
  everywhere,  // there is none
  output,      // where its output is above 0
  recomputed,  // where that is, computed again
  signs,       // where it was, as the norm has written in bits
};

struct NormShape {
  std::int64_t rows, channels;
  DType dtype;
  double epsilon;
};

// How a matrix is cut: slices of channels and parts of rows, one block for each pair.
struct NormCut {
  int vec, across;                   // channels of a thread at a time; threads side by side
  std::int64_t slices, parts, band;  // rows that follow one another in a part
  NormCut(const NormShape& shape, int vec);
  std::int64_t blocks() const { return slices * parts; }
};

// What follows the norm within its kernel.
struct NormAfter {
  enum Adds { nothing, value, norm } adds = nothing;
  bool relu = false;
  bool signs = false;        // it is written where the ReLU lets pass: eight channels in a byte
  double other_epsilon = 0;  // of a norm that is added
};

// Parameters and statistics of a norm.
struct NormSide {
  const void *scale, *shift;
  void *mean, *var;
};

// y may be the memory of x or of what is added.
struct NormForward {
  const void *x, *added;
  NormSide norm, other;
  void *y, *signs;
};

class NormForwardKernel {
 public:
  NormForwardKernel(const NormShape& shape, const NormAfter& after);
  std::size_t scratch_bytes() const;
  void run(const NormForward& args, void* scratch) const;

 private:
  struct Variant {
    NormCut cut;
    Function moments, apply;
    Variant(const NormShape& shape, int vec, const NormAfter& after);
    void run(const NormShape& shape, const NormAfter& after, const NormForward& args, void* scratch) const;
  };
  NormShape shape_;
  NormAfter after_;
  Variant scalar_;
  std::optional<Variant> vector_;
};

// dx and `again` may be the memory of any value read; `passed` that of dy, more or y.
struct NormBackward {
  const void *x, *dy, *more, *y;  // y, or its signs
  const void *mean, *var, *scale, *shift;
  void *dx, *dscale, *dshift, *passed, *again;
};

struct NormGradient {
  Passing passing = Passing::everywhere;
  bool more = false;    // two gradients are added first
  bool passes = false;  // what passed the ReLU is written, too
  bool again = false;   // so is the output of the ReLU, where that is computed anew
};

class NormBackwardKernel {
 public:
  NormBackwardKernel(const NormShape& shape, const NormGradient& source);
  std::size_t scratch_bytes() const;
  void run(const NormBackward& args, void* scratch) const;

 private:
  struct Variant {
    NormCut cut;
    Function sums, apply;
    Variant(const NormShape& shape, int vec, const NormGradient& source);
    void run(const NormShape& shape, const NormGradient& source, const NormBackward& args, void* scratch) const;
  };
  NormShape shape_;
  NormGradient source_;
  Variant scalar_;
  std::optional<Variant> vector_;
};

}  // namespace varve::cuda
