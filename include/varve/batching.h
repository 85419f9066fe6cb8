// Ready batching rules, for operators of one's own too: what stands as `batching` in an OpRecord says how many calls
// become one, for vmap.
#pragma once

#include <optional>
#include <vector>

#include "varve/tensor.h"

namespace varve {

// Leading axes are a batch already: the same call with one more.
std::optional<std::vector<Tensor>> batch_leading(const Batching& call);
// The same, and the attribute `axis`, where it counts from the front, moves one further.
std::optional<std::vector<Tensor>> batch_along_axis(const Batching& call);
// A loop over the examples: for what has no better way.
std::optional<std::vector<Tensor>> batch_one_by_one(const Batching& call);

}  // namespace varve
