// GELU and its slope in one pass over memory: both need the same exponential.
#pragma once

#include <cstdint>

namespace varve::cpu {

// y = x·Φ(x), slope = Φ(x) + x·φ(x). Either may be the memory of x.
void gelu_with_slope(const float* x, float* y, float* slope, std::int64_t count);

}  // namespace varve::cpu
