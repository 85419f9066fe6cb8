// Who offers matrix products.
#pragma once

#include "backends/cpu/claims.h"
#include "backends/cpu/common/rates.h"
#include "backends/cpu/matmul/product.h"

namespace varve::cpu {

ProductSize product_size(const ir::Node& matmul);

// A gradient with the update that takes it.
void claim_update(const backend::Site& site, std::vector<backend::Claim>& claims);

#ifdef VARVE_HAS_ONEDNN
// Larger patterns first: with bias and activation, with packed weights, alone.
void claim_dnn_dense(const backend::Site& site, std::vector<backend::Claim>& claims);
void claim_dnn_packed(const backend::Site& site, std::vector<backend::Claim>& claims);
void claim_dnn_matmul(const backend::Site& site, std::vector<backend::Claim>& claims);
// The product alone, operands as they lie.
backend::Prepare dense_prepare(const ir::Node& node);
#endif

}  // namespace varve::cpu
