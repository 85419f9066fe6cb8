// What gradients become on the wire (ops/compression.cpp).
#pragma once

#include "backends/cpu/common/loops.h"

namespace varve::cpu {

backend::Prepared one_bit(const Task& task);
backend::Prepared one_bit_sum(const Task& task);
backend::Prepared top_entries(const Task& task);

}  // namespace varve::cpu
