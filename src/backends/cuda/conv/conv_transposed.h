// The gradient of a convolution's input as a convolution of dy by turned weights: libraries have more for those.
#pragma once

#include "backends/cuda/conv/conv_algorithm.h"

namespace varve::cuda {

// The convolution that gives this gradient; nothing unless its stride and its groups are 1.
std::optional<ConvSpec> turned_spec(const ConvSpec& spec);

// By `forward`, which computes turned_spec(spec).
ConvWay turned_way(const ConvSpec& spec, ConvWay forward);

}  // namespace varve::cuda
