// Softmax over the rows of a contiguous f32 matrix, and the losses built on it. Rows are shared among threads; each is
// the work of one, so results do not depend on how many there are. Outputs may be the memory of an input.
#pragma once

#include <cstdint>

#include "backends/cpu/common/matrix.h"
#include "varve/dtype.h"

namespace varve::cpu {

void softmax(const float* x, float* y, Matrix shape);
void log_softmax(const float* x, float* y, Matrix shape);
void softmax_grad(const float* y, const float* dy, float* dx, Matrix shape);      // (dy - Σ dy·y)·y
void log_softmax_grad(const float* y, const float* dy, float* dx, Matrix shape);  // dy - exp(y)·Σ dy

struct Labels {  // one class per row
  const void* data = nullptr;
  DType dtype = DType::i64;  // or i32
};

struct RowScale {  // of the gradient: one for all rows, or one per row
  const float* data = nullptr;
  bool per_row = false;
};

// loss[r] = -log softmax(logits)[r, label[r]]; lse[r] = log Σ exp(logits[r]), when wanted (may be null).
// Returns the first row whose label is no column, or -1. Such a row's loss is NaN; nothing outside is touched.
std::int64_t softmax_cross_entropy(const float* logits, Labels labels, float* loss, float* lse, Matrix shape);

// dlogits = (softmax(logits) - onehot(label))·scale, with lse from the forward pass. Returns as above; such a row's
// gradient is NaN.
std::int64_t softmax_cross_entropy_grad(const float* logits, const float* lse, Labels labels, RowScale scale,
                                        float* dlogits, Matrix shape);

// Both for one row, in place: the gradient takes the logits' place. Returns the loss. A label that is no column gives
// NaN for all.
float cross_entropy_in_place(float* logits, std::int64_t columns, std::int64_t label, float scale);

// The label of a row, or -1 when it is no column.
std::int64_t label_of(Labels labels, std::int64_t row, std::int64_t columns);

}  // namespace varve::cpu
