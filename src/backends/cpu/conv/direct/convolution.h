// Plain convolutions of every floating type: patches gathered into a matrix, then the plain matrix product.
#pragma once

#include <memory>

#include "backends/cpu/common/team.h"
#include "backends/cpu/conv/conv_shape.h"
#include "varve/dtype.h"

namespace varve::cpu::plain {

// The bits do not depend on the number of threads.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::size_t scratch_bytes() const = 0;
  // forward: x, w, y;  input_grad: dy, w, dx;  weight_grad: x, dy, dw
  virtual void run(const void* first, const void* second, void* out, void* scratch) const = 0;
};

// None of the tensors is empty.
std::unique_ptr<Convolution> convolution(ConvPass pass, const ConvShape& shape, DType dtype, int workers);

// One channel in each group: direct loops, since a matrix with one column is no product worth the name.
std::unique_ptr<Convolution> depthwise(ConvPass pass, const ConvShape& shape, DType dtype, int workers);

// Blocks of images whose weight gradients are summed apart, then together in order: by sizes alone.
std::int64_t image_blocks(const ConvShape& shape);

}  // namespace varve::cpu::plain
