// Mixup (Zhang et al., 2018): each sample of a batch blended with another one of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "varve/data.h"

namespace varve::data {

// Drawn from Beta(α, α).
double beta(double alpha, Random& random);

// Rows of x become λ·row + (1 - λ)·row of its partner; `spare` has one row.
void mix_rows(std::span<float> x, std::span<const std::int64_t> partner, float lambda, std::span<float> spare);

// y: [labels, classes], the same blend of the one-hot targets. Throws Error when a label is no class.
void mix_targets(std::span<float> y, std::span<const std::int64_t> labels, std::span<const std::int64_t> partner,
                 float lambda, std::int64_t classes);

}  // namespace varve::data
