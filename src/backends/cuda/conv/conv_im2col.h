// A convolution as one product, after a copy of what lies under each pixel's taps: pays where images have few channels
// or are small.
#pragma once

#include "backends/cuda/conv/conv_algorithm.h"

namespace varve::cuda {

// Forward and for the gradient of weights; nothing for groups, and where the copy would be too large to pay.
std::optional<ConvAlgorithm> im2col_algorithm(const ConvSpec& spec);
bool pays_for_im2col(const ConvSpec& spec);  // may do: to be measured

}  // namespace varve::cuda
