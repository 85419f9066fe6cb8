// Orders of an epoch in which some samples come more often than others.
#pragma once

#include <cstdint>
#include <vector>

#include "varve/data.h"

namespace varve::data {

// As many draws as there are weights, each sample as likely as its weight says.
std::vector<std::int64_t> weighted_order(const std::vector<double>& weights, Random random);

// As many draws as there are labels, each class as often as any other; within a class each sample once before any of
// them again. Classes that no sample has are left out.
std::vector<std::int64_t> balanced_order(const std::vector<std::int64_t>& labels, const Random& within,
                                         const Random& among);

}  // namespace varve::data
