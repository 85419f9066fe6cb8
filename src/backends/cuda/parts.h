// Sums of which several blocks have computed a part each: one more kernel adds the parts, always in the same order.
#pragma once

#include <string>

#include "backends/cuda/function.h"

namespace varve::cuda {

// What becomes of the sums: kernels/stream_after.cuh.
struct After {
  bool bias = false, relu = false;
  std::string function = {};  // its function_text(), or nothing
};
std::string after_text(DType dtype, const After& after);

struct Parts {
  const void* first;  // [count,M,N]
  std::int64_t count;
};
// y[M,N], of type `dtype`. N is a multiple of 4.
Function sum_function(DType part, DType dtype, const After& after);
void add_parts(const Function& sum, const Parts& parts, const void* bias, void* y, std::int64_t m, std::int64_t n);

}  // namespace varve::cuda
