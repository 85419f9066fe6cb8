// Convolutions over few input channels, as pictures have: direct, with the images padded in scratch memory.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/conv/biased_conv.h"
#include "backends/cpu/conv/conv_shape.h"
#include "varve/dtype.h"

namespace varve::cpu::plain {

// Why not; empty: it can. f32 alone, forward or the gradient of the weights.
std::string few_channels_refusal(ConvPass pass, const ConvShape& shape, DType dtype);
// The bits do not depend on the number of workers.
std::unique_ptr<BiasedConvolution> few_channels_convolution(ConvPass pass, const ConvShape& shape, bool relu,
                                                            int workers);

}  // namespace varve::cpu::plain
