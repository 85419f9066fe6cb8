// What records of several families have in common.
#pragma once

#include <cstddef>
#include <vector>

#include "varve/op.h"
#include "varve/ops.h"

namespace varve {

inline std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

// The type that sums over many values are taken in.
inline Tensor widened(const Tensor& x) { return x.dtype() == f64 ? x : x.to(f32); }

// Why a collective has no batching rule.
inline constexpr const char* kOncePerBatch = "ranks exchange values once for a whole batch, in an order that all keep";

// The gradient that reaches an output, or zeros.
Tensor flowing(const Vjp& v, std::size_t output);

// Costs of operators that compute nothing: they read and write each value once, or touch none.
Cost moves_only(const Call& call, const std::vector<TensorType>& out);
Cost costs_nothing(const Call& call, const std::vector<TensorType>& out);

}  // namespace varve
