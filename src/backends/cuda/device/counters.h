// Numbers by which the blocks of a launch find out which of them is the last (kernels/last_block.cuh).
#pragma once

#include <memory>

#include "ir/array.h"

namespace varve::cuda {

// In the GPU's memory: zero before each launch, and zero again after it. Null without a GPU, or for none.
std::shared_ptr<ir::Remote> zero_counters(std::size_t count);

}  // namespace varve::cuda
