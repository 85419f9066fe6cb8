// Convolutions of images with few channels, the first of a network, by kernels of ours on tensor cores: what lies under
// the taps goes from shared memory to the products, and is never written out.
#pragma once

#include "backends/cuda/conv/conv_algorithm.h"

namespace varve::cuda {

bool pays_for_few_channels(const ConvSpec& spec);  // may do: to be measured
std::optional<ConvAlgorithm> few_channels_algorithm(const ConvSpec& spec);

}  // namespace varve::cuda
