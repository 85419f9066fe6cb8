// Targets in the form that losses and metrics compute with.
#pragma once

#include "varve/ops.h"

namespace varve::train {

// Class numbers against logits [.., C]: integers [..], which may also come as [.., 1]. Otherwise targets are taken as
// probabilities of the output's shape.
inline bool holds_classes(const Tensor& target) { return !is_floating(target.dtype()); }

// i32 or i64 of the output's shape without its last axis; Error that names `who` when the target does not fit.
Tensor class_numbers(const Tensor& output, const Tensor& target, const char* who);
// f32 of the output's shape: [N] fits [N, 1] and the other way round; Error that names `who` otherwise.
Tensor values_like(const Tensor& output, const Tensor& target, const char* who);
// f32 probabilities of the output's shape; Error that names `who` otherwise.
Tensor probabilities(const Tensor& output, const Tensor& target, const char* who);

// f32 of the rows' shape: weights [N] or [N, T], or as many axes as the rows have. Error that names `who` otherwise.
Tensor weights_of_rows(const Tensor& weights, const Shape& rows, const char* who);
// Class numbers without those that count for nothing, and what each of them counts, f32: 1, or 0.
struct KeptClasses {
  Tensor target, weights;
};
KeptClasses without_ignored(const Tensor& target, std::int64_t ignore_index, const char* who);

}  // namespace varve::train
