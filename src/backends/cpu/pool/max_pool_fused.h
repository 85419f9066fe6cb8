// Who offers maximum pooling fused with its neighbours.
#pragma once

#include "backends/cpu/claims.h"

namespace varve::cpu {

// f32 and bf16: max_pool2d with the dropout that follows; its gradient with the dropout before it, the gradient of the
// ReLU that gave its input, and the sum over all pixels that is a bias's gradient. Before other offers.
void add_fused_max_pool_claims(ClaimMap& map);

}  // namespace varve::cpu
