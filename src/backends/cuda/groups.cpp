#include "backends/cuda/claims.h"

namespace varve::cuda {

backend::Claim offer_group(const backend::Group&) { return backend::Claim::no("generated", "not written yet"); }

}  // namespace varve::cuda
