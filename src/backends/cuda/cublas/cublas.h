// Products by cuBLASLt: the library's handle, and one product as it wants to be asked for.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/cublas/cublas_layout.h"
#include "backends/cuda/matmul/matmul_plain.h"

namespace varve::cuda {

// Throws Error: "cublasLtMatmul failed: an unsupported value or parameter was passed (CUBLAS_STATUS_INVALID_VALUE)."
void check(cublasStatus_t status, const char* call);

// The library's handle for this process; null where there is no GPU, or none that the library can use.
cublasLtHandle_t blas();
// Why the library is not asked for products of this type; empty: it is.
std::string blas_refusal(DType dtype);

template <class T, auto destroy>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (value_) destroy(value_);
  }
  T get() const { return value_; }
  T* out() { return &value_; }

 private:
  T value_ = nullptr;
};
using BlasDesc = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using BlasLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using BlasPreference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// How the library is to compute a product, and the memory that it wants for that.
struct BlasAlgorithm {
  cublasLtMatmulAlgo_t algorithm = {};
  std::size_t workspace = 0;
};

class BlasGemm {
 public:
  // Null when the library does not take it. The product is one call: blas_problem(spec.product) has a value.
  static std::shared_ptr<BlasGemm> prepare(const GemmSpec& spec);

  // Has the library do what it does at its first use, beside the caller.
  static void wake();

  std::size_t scratch_bytes() const;
  // Whether it can also be run with operands that begin anywhere. Those on 16 bytes are always taken.
  bool takes_any_address() const { return loose_.has_value(); }
  static bool is_aligned(const GemmOperands& operands);
  void run(const GemmOperands& operands) const;

  // What tells this product from others, for those who choose algorithms.
  std::string key() const;
  struct Bytes {
    std::size_t a = 0, b = 0, c = 0, bias = 0;  // of our operands
    std::size_t all() const { return a + b + c + bias; }
  };
  Bytes operand_bytes() const;
  DType out() const { return spec_.out; }
  void run(const GemmOperands& operands, const BlasAlgorithm& algorithm) const;
  // The library's own order, the best first; for operands at addresses that are multiples of `alignment`.
  std::vector<BlasAlgorithm> candidates(int most, std::uint32_t alignment) const;
  bool takes(BlasAlgorithm& algorithm) const;  // and sets the workspace

 private:
  explicit BlasGemm(const GemmSpec& spec);
  bool choose();

  GemmSpec spec_;
  BlasProblem problem_;
  BlasDesc desc_;
  BlasLayout a_, b_, d_;
  BlasAlgorithm aligned_;               // for operands on 16 bytes
  std::optional<BlasAlgorithm> loose_;  // for all others
};

}  // namespace varve::cuda
