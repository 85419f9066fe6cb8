// Operands for kernels that are timed before they are chosen.
#pragma once

#include <cstddef>

namespace varve::cuda {

// Numbers of all kinds, for on equal ones a GPU draws less power and is faster than it will be: as bf16, and so as the
// upper half of a float, from 1/4 to 1 with either sign, and nothing infinite in other types.
void fill_with_numbers(void* to, std::size_t bytes);

}  // namespace varve::cuda
