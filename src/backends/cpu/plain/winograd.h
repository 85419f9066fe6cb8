// Convolutions by Winograd's minimal filtering, on images that stay channels last: tiles are transformed, multiplied
// position by position, and transformed back, a block of tiles at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/cpu/conv_shape.h"
#include "backends/cpu/plain/winograd_kernels.h"

namespace varve::cpu::plain {

struct WinogradOptions {
  WinogradSize size;
  DType dtype = f32;  // of images and weights, f32 or bf16; the arithmetic is f32
  bool relu = false;  // forward only
  int lanes = 1;      // that work at the same time
};

struct WinogradArgs {
  const void* first;  // forward: x, w, y;  input_grad: dy, w, dx;  weight_grad: x, dy, dw
  const void* second;
  const float* bias;  // forward only; null: none
  void* out;
  void* scratch;
};

// The bits do not depend on the number of lanes.
class Winograd {
 public:
  virtual ~Winograd() = default;
  virtual std::size_t scratch_bytes() const = 0;
  virtual void run(const WinogradArgs& args) const = 0;
};

// Why these tiles cannot compute it; empty: they can.
std::string winograd_refusal(const ConvShape& shape, WinogradSize size, DType dtype);
std::unique_ptr<Winograd> winograd(ConvPass pass, const ConvShape& shape, const WinogradOptions& options);

}  // namespace varve::cpu::plain
