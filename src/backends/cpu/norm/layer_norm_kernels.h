// Layer norm and RMS norm over the rows of a contiguous f32 matrix. Outputs may be the memory of an input of the same
// shape.
#pragma once

#include "backends/cpu/common/matrix.h"

namespace varve::cpu {

struct NormParams {
  const float* gain = nullptr;  // [columns], or null: 1
  const float* bias = nullptr;  // [columns], or null: 0
  float epsilon = 1e-5f;
};

// y = (x - mean)·rstd·gain + bias, rstd = 1 / √(variance + ε); mean[r] and rstd[r] are saved for the gradient.
void layer_norm(const float* x, NormParams params, float* y, float* mean, float* rstd, Matrix shape);
// With g = dy·gain and x̂ = (x - mean)·rstd: dx = (g - mean(g) - x̂·mean(g·x̂))·rstd (+ plus), dgain = Σ dy·x̂ and
// dbias = Σ dy over the rows, all in one pass.
struct LayerNormGrad {
  const float *dy, *x, *mean, *rstd;
  const float* gain = nullptr;  // [columns], or null: 1
  const float* plus = nullptr;  // like dx, or null
  float *dx, *dgain, *dbias;
};
// One row of it, whose shares of dgain and dbias are added to what is there; null where there are none.
struct NormGradRow {
  const float *dy, *x, *gain, *plus;
  float *dx, *dgain, *dbias;
};
std::size_t layer_norm_grad_scratch(Matrix shape);
void layer_norm_grad(const LayerNormGrad& grad, Matrix shape, void* scratch);

// y = x·rstd·gain (+ bias), rstd = 1 / √(mean(x²) + ε)
void rms_norm(const float* x, NormParams params, float* y, float* rstd, Matrix shape);
// With g = dy·gain and x̂ = x·rstd: dx = (g - x̂·mean(g·x̂))·rstd
void rms_norm_grad(const float* dy, const float* x, const float* rstd, const float* gain, float* dx, Matrix shape);

}  // namespace varve::cpu
