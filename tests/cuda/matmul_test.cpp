// Matrix products of the CUDA backend, as far as they can be tested without a GPU: texts compile for every type.
#include <gtest/gtest.h>

#include "backends/cuda/matmul_own.h"

namespace varve::cuda {
namespace {

Product square(std::int64_t size) {
  return {.m = size, .n = size, .k = size, .a = {{}, size, 1}, .b = {{}, size, 1}, .c = {{}, size, 1}};
}

void expect_compiles(const std::string& part) {
  int found = 0;
  for (const std::string& text : collected_texts()) {
    if (text.find(part) == std::string::npos) continue;
    ++found;
    for (const char* arch : {"sm_80", "sm_90"}) EXPECT_FALSE(compile(prelude() + text, arch).empty()) << arch;
  }
  EXPECT_GT(found, 0) << part;
}

TEST(CudaMatmul, TheOwnKernelCompilesForEveryType) {
  for (const DType dtype : {f32, f64, bf16, f16, i8, u8, i32, i64})
    const OwnGemm gemm({.product = square(4), .in = dtype, .out = dtype});
  for (const DType in : {f32, bf16, f16}) {
    const OwnGemm update({.product = square(4), .in = in, .out = f32, .adds = true, .scaled = true});
    const OwnGemm dense({.product = square(4), .in = in, .out = in, .bias = true, .relu = true});
  }
  expect_compiles("struct MatmulShape");
}

}  // namespace
}  // namespace varve::cuda
