// The algorithms of Winograd's convolution, one file each.
#pragma once

#include "backends/cpu/conv/winograd/winograd.h"

namespace varve::cpu::plain {

// y from x, or dx from dy: tiles of results. Blocks of tiles pass all filters.
std::unique_ptr<BiasedConvolution> winograd_by_tiles(ConvPass pass, const ConvShape& shape,
                                                     const WinogradOptions& options);
// The same where filters outweigh the images: they are transformed a few panels at a time and pass all tiles.
std::unique_ptr<BiasedConvolution> winograd_by_panels(ConvPass pass, const ConvShape& shape,
                                                      const WinogradOptions& options);
// dx by the steps of the forward pass transposed: tiles of dy, whose overlapping results are accumulated.
std::unique_ptr<BiasedConvolution> winograd_transposed(const ConvShape& shape, const WinogradOptions& options);
std::unique_ptr<BiasedConvolution> winograd_weight_gradient(const ConvShape& shape, const WinogradOptions& options);

}  // namespace varve::cpu::plain
