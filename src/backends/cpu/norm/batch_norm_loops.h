// The loops of batch norm over some lines of a matrix, for one instruction set and one type (f32 or bf16). Every column
// has a separate sum, so bits do not depend on the width of a vector. Elements are computed in f32.
#pragma once

#include <cstddef>

#include "varve/dtype.h"

namespace varve::cpu {

// Where a gradient passes a ReLU that followed the norm.
enum class Passing {
  everywhere,  // there was none
  output,      // where its output is positive
  recomputed,  // where (x - mean)·gain + shift, computed again, is positive: nothing stood between norm and ReLU
};

struct NormLines {
  std::size_t lines = 0, width = 0;
  const void* x = nullptr;
  const float *mean = nullptr, *gain = nullptr, *shift = nullptr;  // per column; gain is scale/deviation
};

struct MomentsTask {
  NormLines in;            // of which only x
  float* sums = nullptr;   // 3·width, for the loop's own use
  double* mean = nullptr;  // results per column: mean and Σ(x - mean)²
  double* squares = nullptr;
};

// y = (x - mean)·gain + shift (+ added), and ReLU of that
struct NormaliseTask {
  NormLines in;
  const void* added = nullptr;
  bool relu = false;
  bool nontemporal = false;  // past the caches
  void* y = nullptr;
};

// g: dy, or dy + more, where it passes the ReLU
struct GradientSource {
  const void *dy = nullptr, *more = nullptr;
  Passing passing = Passing::everywhere;
  const void* output = nullptr;  // of the ReLU
};

// Σ g and Σ g·(x - mean) of each column; g itself where somebody wants it
struct GradientSumsTask {
  NormLines in;
  GradientSource from;
  void* passed = nullptr;  // g, or null
  float* sums = nullptr;   // 2·width, for the loop's own use
  double *sum = nullptr, *product = nullptr;
};

// dx = g·gain - offset - (x - mean)·slope
struct GradientTask {
  NormLines in;
  GradientSource from;  // without `more`
  const float *offset = nullptr, *slope = nullptr;
  void* dx = nullptr;
};

struct BatchNormLoops {
  void (*moments)(const MomentsTask&) = nullptr;
  void (*normalise)(const NormaliseTask&) = nullptr;
  void (*gradient_sums)(const GradientSumsTask&) = nullptr;
  void (*gradient)(const GradientTask&) = nullptr;
};
BatchNormLoops batch_norm_loops(DType dtype);  // f32 or bf16

}  // namespace varve::cpu
