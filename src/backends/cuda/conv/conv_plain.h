// Convolutions by plain kernels, which take every floating type and every geometry.
#pragma once

#include "backends/cuda/conv/conv_algorithm.h"
#include "backends/cuda/device/function.h"

namespace varve::cuda {

class PlainConv {
 public:
  PlainConv(const ConvCall& call, DType dtype, ConvEpilogue epilogue = {}, Begin begin = Begin::now);
  std::size_t scratch_bytes() const;
  void run(const ConvOperands& operands, void* scratch) const;

 private:
  ConvCall call_;
  DType dtype_;
  ConvEpilogue epilogue_;
  std::int64_t tiles_ = 0, parts_ = 1, part_terms_ = 0;
  Function conv_, sum_;
};

}  // namespace varve::cuda
