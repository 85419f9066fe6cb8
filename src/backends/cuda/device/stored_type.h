// Names of stored types in texts that follow kernels/convert.cuh, where a boolean is no number.
#pragma once

#include "backends/cuda/device/function.h"

namespace varve::cuda {

inline const char* stored_type(DType dtype) { return dtype == boolean ? "flag" : type_name(dtype); }

}  // namespace varve::cuda
