#include "backends/cuda/claims.h"

namespace varve::cuda {

void add_index_claims(ClaimMap&) {}

}  // namespace varve::cuda
