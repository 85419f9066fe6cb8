// A weight's gradient and what an optimiser does with it, as one kernel; and both with the gradient of the layer's
// input, which reads the same weights.
#pragma once

#include "backends/cuda/claims.h"

namespace varve::cuda {

void claim_update(const backend::Site& site, std::vector<backend::Claim>& claims);
void claim_back(const backend::Site& site, std::vector<backend::Claim>& claims);
bool has_back_claim(const backend::Site& site);  // whether claim_back finds one

}  // namespace varve::cuda
