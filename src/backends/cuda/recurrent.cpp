#include "backends/cuda/claims.h"

namespace varve::cuda {

void add_recurrent_claims(ClaimMap&) {}

}  // namespace varve::cuda
