#include "backends/cuda/claims.h"

namespace varve::cuda {

void add_attention_claims(ClaimMap&) {}

}  // namespace varve::cuda
