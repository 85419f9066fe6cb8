// Who offers convolutions and their gradients.
#pragma once

#include "backends/cpu/claims.h"
#include "backends/cpu/conv/conv_shape.h"

namespace varve::cpu {

// Which of the three operators a node is, and its geometry.
struct ConvCall {
  ConvPass pass;
  ConvShape shape;
  bool empty;  // one of the three tensors
};
ConvCall conv_call(const ir::Node& node);
const char* name(ConvPass pass);  // "conv2d_input_grad"

backend::Prepared prepare_plain_conv(const ConvCall& call, DType dtype, int threads);

// Where it is cheaper than the direct algorithm; with bias and ReLU first, then alone.
void claim_winograd(const backend::Site& site, std::vector<backend::Claim>& claims);

// Few input channels; the same.
void claim_few_channels(const backend::Site& site, std::vector<backend::Claim>& claims);

#ifdef VARVE_HAS_ONEDNN
// Gradients of weights of 1×1 kernels, as a product.
void claim_pointwise(const backend::Site& site, std::vector<backend::Claim>& claims);
// With bias and activation first, then alone.
void claim_dnn_conv(const backend::Site& site, std::vector<backend::Claim>& claims);
#endif

}  // namespace varve::cpu
