#include "backends/cuda/claims.h"

namespace varve::cuda {

void add_conv_claims(ClaimMap&) {}

}  // namespace varve::cuda
