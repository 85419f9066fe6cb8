// Convolutions of images of so few pixels that most taps of most pixels fall on padding, by kernels of ours, which
// multiply only pixels that meet and read every weight once.
#pragma once

#include "backends/cuda/conv/conv_algorithm.h"

namespace varve::cuda {

bool pays_for_small_images(const ConvSpec& spec);  // may do: to be measured
std::optional<ConvAlgorithm> small_images_algorithm(const ConvSpec& spec);

}  // namespace varve::cuda
