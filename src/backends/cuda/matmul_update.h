// A weight's gradient and the plain step that takes it, as one product: w = beta · w + alpha · a·b.
#pragma once

#include "backends/cuda/claims.h"

namespace varve::cuda {

void claim_update(const backend::Site& site, std::vector<backend::Claim>& claims);

}  // namespace varve::cuda
