#include "backends/cuda/matmul/split_k.h"

#include <algorithm>

#include "base/text.h"

namespace varve::cuda {

std::string epilogue_text(DType dtype, const After& after) {
  return after.function + defines({{"T", type_name(dtype)},
                                   {"BIAS", cat(after.bias ? 1 : 0)},
                                   {"RELU", cat(after.relu ? 1 : 0)},
                                   {"FUNCTION", after.function.empty() ? "0" : "1"}});
}

Function sum_function(DType part, DType dtype, const After& after) {
  return {"split_k_sum", {"matmul/split_k_sum.cu", epilogue_text(dtype, after) + defines({{"PART", type_name(part)}})}};
}

void add_parts(const Function& sum, const Parts& parts, const void* bias, void* y, std::int64_t m, std::int64_t n) {
  constexpr std::int64_t kMany = 16;  // parts
  const bool many = parts.count >= kMany;
  const int threads = many ? 32 : 128;
  const std::int64_t numbers = m * n;
  sum({.grid = (numbers / 4 + threads - 1) / threads, .block = threads, .block_y = many ? 8 : 1}, parts.first, bias, y,
      numbers, n, static_cast<int>(parts.count));
}

Function tail_function(DType part, DType dtype, const Tail& tail) {
  return {"split_k_tail",
          {"matmul/split_k_tail.cu", tail.function + defines({{"T", type_name(dtype)},
                                                              {"PART", type_name(part)},
                                                              {"OPERANDS", cat(tail.operands)},
                                                              {"COLUMNS", cat(tail.columns ? 1 : 0)}})}};
}

void add_parts(const Function& function, const Parts& parts, const Tail& tail, const TailOperands& o, std::int64_t m,
               std::int64_t n) {
  struct Matrices {
    const void* at[kMostTailOperands] = {};
  } matrices;
  std::copy_n(o.in, tail.operands, matrices.at);
  constexpr std::int64_t kWidth = 16;  // columns of a block
  function({.grid = (n + kWidth - 1) / kWidth, .block = 256}, parts.first, matrices, o.y, o.sums, static_cast<int>(m),
           n, static_cast<int>(parts.count));
}

}  // namespace varve::cuda
