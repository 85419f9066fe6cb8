// Dropout as a part of other kernels: the mask is drawn where it is used.
#pragma once

#include <cstdint>

namespace varve::cpu {

struct RandomSource {
  std::uint64_t seed, stream, counter;
};
// Seed and counter are i64 scalars, read when the program runs.
RandomSource random_source(const void* seed, const void* counter, std::int64_t stream);

// out = x / (1 - rate) or zero, for elements [first, first + count) of a tensor; out may be x.
void drop_floats(const float* x, float* out, std::int64_t first, std::int64_t count, double rate,
                 const RandomSource& from);

}  // namespace varve::cpu
