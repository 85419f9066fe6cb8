// A product by whoever can do it: the library, after copies of what it cannot read, or else the plain kernel.
#pragma once

#include "backends/cuda/cublas/cublas.h"
#include "backends/cuda/matmul/split_k.h"

namespace varve::cuda {

// For kernels: a copy is the same product. Runs without allocating; one thread at a time.
class Gemm {
 public:
  explicit Gemm(const GemmSpec& spec);

  std::size_t scratch_bytes() const;
  void run(const GemmOperands& operands) const;

 private:
  struct Copy {
    std::shared_ptr<backend::Kernel> kernel;  // null: the operand is read as it lies
    std::size_t bytes = 0, scratch = 0;
  };
  bool prepare_blas(const GemmSpec& spec);
  const void* copied(const Copy& copy, const void* from, std::byte*& scratch) const;
  static Copy make_copy(const MatrixStrides& from, const MatrixStrides& to, const Shape& shape, DType dtype);

  std::shared_ptr<BlasGemm> blas_;
  Copy a_, b_;
  std::shared_ptr<PlainGemm> plain_;  // set where the library may refuse
};

// a, b, the bias, if there is one, and what the tail reads: by a Gemm, or where few rows meet large weights by the
// faster of two. A tail is for a TmaGemm.
backend::Prepared prepare_product(const GemmSpec& spec, const std::vector<backend::Port>& in,
                                  const std::vector<backend::Port>& out, const Tail& tail = {});

}  // namespace varve::cuda
