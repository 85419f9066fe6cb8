// Adding and writing at positions that are tensors, offered with the other indexing kernels.
#pragma once

#include "backends/cpu/common/loops.h"

namespace varve::cpu {

backend::Prepared scatter_add(const Task& task);
backend::Prepared embedding_grad(const Task& task);
backend::Prepared put_along_axis_add(const Task& task);
backend::Prepared scatter(const Task& task);
backend::Prepared put_along_axis(const Task& task);

// What a kernel notes about a bad index; the value follows it.
std::string out_of_range(const std::string& op, std::int64_t size, std::int64_t axis);

}  // namespace varve::cpu
