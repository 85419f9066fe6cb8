#include "backends/cuda/claims.h"

namespace varve::cuda {

void add_pool_claims(ClaimMap&) {}

}  // namespace varve::cuda
