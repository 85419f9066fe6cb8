// Kernels that work on one row of the last axis at a time, in f32. Other axes and types are decomposed.
#pragma once

#include <string>

#include "backends/cpu/common/floats.h"
#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/matrix.h"

namespace varve::cpu {

// Rows of the last axis. Not for empty tensors.
inline Matrix rows_of(const Shape& shape) { return {shape.numel() / shape.back(), shape.back()}; }

// Why a row kernel does not take this type; empty: it does.
std::string row_refusal(const TensorType& type);

// Offers a kernel for rows of the last axis.
void offer_rows(ClaimMap& map, const std::string& op, Maker make);

}  // namespace varve::cpu
