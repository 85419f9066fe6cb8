// Convolutions in TF32 by our own kernel, which reads an image once for all taps. For compute capability 9.0.
#pragma once

#include "backends/cuda/conv_way.h"

namespace varve::cuda {

// Nothing but forward, of stride 1; gradients of inputs come to that (conv_turned.h).
bool pays_to_tile(const ConvSpec& spec);  // may do: to be measured
std::optional<ConvWay> tiled_way(const ConvSpec& spec);

}  // namespace varve::cuda
