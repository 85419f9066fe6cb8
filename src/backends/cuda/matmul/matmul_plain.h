// Matrix products by plain kernels: one takes every type and all strides, for what the library refuses and where
// there is none; one is for small products.
#pragma once

#include "backends/cuda/device/function.h"
#include "backends/cuda/matmul/product.h"

namespace varve::cuda {

// What becomes of a product before it is stored.
struct GemmSpec {
  Product product;
  DType in = f32, out = f32;  // of the factors, and of everything else
  bool tf32 = false;          // products of f32 may round their operands to TF32
  bool bias = false;          // one number for each column is added
  bool relu = false;          // after the bias
  bool adds = false;          // c = alpha · a·b + beta · c0; without it a·b
  bool scaled = false;        // alpha and beta are read from device memory, two numbers of type scale_type(out)
  double alpha = 1, beta = 1;
  // a or b is copied first so that it lies along k; for a Gemm of one matrix
  bool transpose_a = false, transpose_b = false;
  bool wide_b = false;  // b is f32 and is rounded to `in` first: for TmaGemm alone
  bool early = false;   // no earlier kernel of the program writes b
};
DType scale_type(DType out);

struct GemmOperands {
  const void *a = nullptr, *b = nullptr, *bias = nullptr, *c0 = nullptr, *scale = nullptr;
  void *c = nullptr, *scratch = nullptr;  // c may be c0
  const void* const* more = nullptr;      // what is read by a tail that follows,
  void* sums = nullptr;                   // and where it puts the sums of columns
};

class PlainGemm {
 public:
  PlainGemm() = default;
  explicit PlainGemm(const GemmSpec& spec, Begin begin = Begin::now);
  void run(const GemmOperands& operands) const;

 private:
  void launch(const GemmOperands& operands, const Offsets& at) const;
  GemmSpec spec_;
  Function function_;
};

// Products of so few numbers that a launch is most of them: matmul/matmul_small.cu.
class SmallGemm {
 public:
  explicit SmallGemm(const GemmSpec& spec);
  static bool takes(const GemmSpec& spec);
  void run(const GemmOperands& operands) const;

 private:
  GemmSpec spec_;
  Function function_;
};

}  // namespace varve::cuda
