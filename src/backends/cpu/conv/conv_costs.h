// What the algorithms of a convolution cost, counted in multiply-adds: which is the cheapest does not depend much on
// how fast the machine does them.
#pragma once

#include "backends/cpu/conv/conv_shape.h"
#include "backends/cpu/conv/winograd/kernels.h"

namespace varve::cpu {

double direct_cost(const ConvShape& shape, DType dtype);
double winograd_cost(ConvPass pass, const ConvShape& shape, plain::WinogradSize size);

double fft_cost(const ConvShape& shape);  // of every pass: images, filters and results change places

}  // namespace varve::cpu
