// The gradient of a convolution's input as a convolution of dy by transposed weights: libraries have more for those.
#pragma once

#include "backends/cuda/conv/conv_algorithm.h"

namespace varve::cuda {

// The convolution that gives this gradient; nothing unless its stride and its groups are 1.
std::optional<ConvSpec> transposed_spec(const ConvSpec& spec);

// By `forward`, which computes transposed_spec(spec).
ConvAlgorithm transposed_algorithm(const ConvSpec& spec, ConvAlgorithm forward);

}  // namespace varve::cuda
