// Convolutions by Winograd's minimal filtering, on images that stay channels last: tiles are transformed, multiplied
// position by position, and transformed back, a block of tiles at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/cpu/conv/biased_conv.h"
#include "backends/cpu/conv/conv_shape.h"
#include "backends/cpu/conv/winograd/kernels.h"

namespace varve::cpu::plain {

inline constexpr WinogradSize kWinogradSizes[] = {{4, 2}, {6, 4}, {8, 6}, {6, 2}, {8, 4}, {8, 2}};

struct WinogradOptions {
  WinogradSize size;
  DType dtype = f32;  // of images and weights, f32 or bf16; the arithmetic is f32
  bool relu = false;  // forward only
  int workers = 1;    // that work at the same time
};

// Why these tiles cannot compute it; empty: they can.
std::string winograd_refusal(const ConvShape& shape, WinogradSize size, DType dtype);
std::unique_ptr<BiasedConvolution> winograd(ConvPass pass, const ConvShape& shape, const WinogradOptions& options);

}  // namespace varve::cpu::plain
