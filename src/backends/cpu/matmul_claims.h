// Who offers matrix products.
#pragma once

#include "backends/cpu/claims.h"
#include "backends/cpu/product.h"

namespace varve::cpu {

inline Transposes transposes_of(const ir::Node& matmul) {
  return {matmul.attrs.flag("transpose_a"), matmul.attrs.flag("transpose_b")};
}

#ifdef VARVE_HAS_ONEDNN
// Larger patterns first: with the update of a weight, with bias and activation, alone.
void claim_dnn_update(const backend::Site& site, std::vector<backend::Claim>& claims);
void claim_dnn_dense(const backend::Site& site, std::vector<backend::Claim>& claims);
void claim_dnn_matmul(const backend::Site& site, std::vector<backend::Claim>& claims);
#endif

}  // namespace varve::cpu
