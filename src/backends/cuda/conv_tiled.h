// Convolutions on tensor cores by our own kernels, which read an image once for all taps. For compute capability 9.0.
#pragma once

#include "backends/cuda/conv_way.h"

namespace varve::cuda {

// Forward, and in TF32 the gradient of weights, of stride 1; gradients of inputs come to the former (conv_turned.h).
bool pays_to_tile(const ConvSpec& spec);  // may do: to be measured
std::optional<ConvWay> tiled_way(const ConvSpec& spec);

// Its parts: what both passes ask, and the gradient of weights.
bool may_tile(const ConvSpec& spec);
bool pays_to_tile_weights(const ConvSpec& spec);
ConvWay tiled_weights_way(const ConvSpec& spec);

}  // namespace varve::cuda
