// Sums of which several blocks have computed a part each: one more kernel adds the parts, always in the same order.
#pragma once

#include <string>

#include "backends/cuda/device/function.h"

namespace varve::cuda {

// What becomes of the sums: kernels/epilogue.cuh.
struct After {
  bool bias = false, relu = false;
  std::string function = {};  // its function_text(), or nothing
};
std::string epilogue_text(DType dtype, const After& after);

struct Parts {
  const void* first;  // [count,M,N]
  std::int64_t count;
};
// y[M,N], of type `dtype`. N is a multiple of 4.
Function sum_function(DType part, DType dtype, const After& after);
void add_parts(const Function& sum, const Parts& parts, const void* bias, void* y, std::int64_t m, std::int64_t n);

// What follows a product of few rows: a function of it and of other matrices of its type and shape, as the gradient of
// an activation is, and perhaps the sums of the columns of that.
struct Tail {
  std::string function = {};  // its function_text(), or nothing
  std::size_t operands = 0;
  bool columns = false;

  bool is_simple() const { return operands == 0 && !columns; }  // of each number by itself
};
constexpr std::size_t kMostTailOperands = 2;
struct TailOperands {
  const void* const* in;
  void *y, *sums;
};
// Of at most 64 rows, and a tail that is not simple.
Function tail_function(DType part, DType dtype, const Tail& tail);
void add_parts(const Function& function, const Parts& parts, const Tail& tail, const TailOperands& operands,
               std::int64_t m, std::int64_t n);

}  // namespace varve::cuda
