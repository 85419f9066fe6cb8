// The gradient of 3×3 weights in TF32 by a kernel of ours, which reads the images once for all taps. For compute
// capability 9.0.
#pragma once

#include "backends/cuda/conv/conv_algorithm.h"

namespace varve::cuda {

bool pays_for_3x3(const ConvSpec& spec);  // may do: to be measured
std::optional<ConvAlgorithm> weight_grad_3x3_algorithm(const ConvSpec& spec);

}  // namespace varve::cuda
