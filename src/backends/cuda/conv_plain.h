// Convolutions by our own kernels, which take every floating type and every geometry.
#pragma once

#include "backend/backend.h"
#include "backends/cuda/conv_shape.h"
#include "backends/cuda/function.h"

namespace varve::cuda {

// What follows a convolution within its kernel.
struct ConvEpilogue {
  bool bias = false, relu = false;
  bool empty() const { return !bias && !relu; }
};

class PlainConv {
 public:
  PlainConv(const ConvCall& call, DType dtype, ConvEpilogue epilogue = {});
  std::size_t scratch_bytes() const;
  // The operator's operands in their order; `bias` null where the epilogue has none.
  void run(const void* first, const void* second, const void* bias, void* out, void* scratch) const;

 private:
  ConvCall call_;
  DType dtype_;
  ConvEpilogue epilogue_;
  std::int64_t tiles_ = 0, parts_ = 1, part_terms_ = 0;
  Function conv_, sum_;
};

}  // namespace varve::cuda
