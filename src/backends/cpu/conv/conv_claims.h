// Who offers convolutions and their gradients.
#pragma once

#include "backends/cpu/claims.h"
#include "backends/cpu/conv/conv_shape.h"

namespace varve::cpu {

backend::Prepared prepare_plain_conv(const ConvCall& call, DType dtype, int threads);

// Where it is cheaper than the direct algorithm; with bias and ReLU first, then alone.
void claim_winograd(const backend::Site& site, std::vector<backend::Claim>& claims);

// By spectra, where that is cheaper than both; the same.
void claim_fft(const backend::Site& site, std::vector<backend::Claim>& claims);

// Few input channels; the same.
void claim_few_channels(const backend::Site& site, std::vector<backend::Claim>& claims);

#ifdef VARVE_HAS_ONEDNN
// Gradients of weights of 1×1 kernels, as a product.
void claim_pointwise(const backend::Site& site, std::vector<backend::Claim>& claims);
// With bias and activation first, then alone.
void claim_dnn_conv(const backend::Site& site, std::vector<backend::Claim>& claims);
#endif

}  // namespace varve::cpu
