// Kernels of the collective operators for backends whose memory is the processor's.
#pragma once

#include "backend/task.h"

namespace varve::backend {

// Offers a kernel for every collective operator, as "<backend> all_sum" and the like.
void add_collective_claims(ClaimMap& map, const std::string& backend);
// The same for backends that list makers by name: null when the operator is no collective.
Maker collective_maker(const std::string& op);

// A bucket of gradients (compiler/passes/buckets.cpp): `all_sum_begin` puts them one after the other and lets them go,
// `all_sum_end` waits for their sums.
bool is_collective(const ir::Node& node);

}  // namespace varve::backend
