#include "backends/cuda/claims.h"

namespace varve::cuda {

void add_shape_claims(ClaimMap&) {}

}  // namespace varve::cuda
