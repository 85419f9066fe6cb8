// Convolutions over few input channels, as pictures have: direct, with the images padded in scratch memory.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/conv_shape.h"
#include "backends/cpu/plain/biased_conv.h"
#include "varve/dtype.h"

namespace varve::cpu::plain {

// Why not; empty: it can. f32 alone, forward or the gradient of the weights.
std::string thin_refusal(ConvPass pass, const ConvShape& shape, DType dtype);
// The bits do not depend on the number of lanes.
std::unique_ptr<BiasedConvolution> thin_convolution(ConvPass pass, const ConvShape& shape, bool relu, int lanes);

}  // namespace varve::cpu::plain
