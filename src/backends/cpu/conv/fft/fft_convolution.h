// Convolutions as products of spectra: whole images are transformed, multiplied frequency by frequency, and transformed
// back. What it costs does not depend on the size of the kernel.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/conv/biased_conv.h"
#include "backends/cpu/conv/conv_shape.h"

namespace varve::cpu::plain {

struct FftOptions {
  bool relu = false;  // forward only
  int workers = 1;    // that work at the same time
};

// The size of the transform along an axis: no less than what may not wrap around, with small prime factors.
std::int64_t fft_height(const ConvShape& shape);
std::int64_t fft_width(const ConvShape& shape);

// Why it cannot be computed so; empty: it can.
std::string fft_refusal(const ConvShape& shape, DType dtype);
std::unique_ptr<BiasedConvolution> fft_convolution(ConvPass pass, const ConvShape& shape, const FftOptions& options);

}  // namespace varve::cpu::plain
