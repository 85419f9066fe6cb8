// What becomes of the sums of a product.
//   BIAS 1  one number of type T for each column is added
//   RELU 1  what is negative becomes 0; NaN stays
//   FUNCTION 1  update(sum, …, y), which stands before, gives the result
#pragma once

#include "kernels/prelude.cuh"

#include "generated.cuh"

__device__ __forceinline__ float finished(float sum, const T* bias, i64 column) {
#if BIAS
  sum += widen<float>(bias[column]);
#endif
#if RELU
  sum = !(sum <= 0.0f) ? sum : 0.0f;
#endif
#if FUNCTION
  update(sum, nullptr, nullptr, &sum);
#endif
  return sum;
}
