// A convolution with what may follow it.
#pragma once

#include <cstddef>

namespace varve::cpu::plain {

struct ConvArgs {
  const void* first;  // forward: x, w, y;  input_grad: dy, w, dx;  weight_grad: x, dy, dw
  const void* second;
  const float* bias;  // forward only; null: none
  void* out;
  void* scratch;
};

// The bits do not depend on the number of threads.
class BiasedConvolution {
 public:
  virtual ~BiasedConvolution() = default;
  virtual std::size_t scratch_bytes() const = 0;
  virtual void run(const ConvArgs& args) const = 0;
};

}  // namespace varve::cpu::plain
