#include "backends/cpu/claims.h"

namespace varve::cpu {

void add_recurrent_claims(ClaimMap&) {}

}  // namespace varve::cpu
