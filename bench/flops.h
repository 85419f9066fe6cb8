// The work of a training step counted from a network's sizes, apart from any framework: the same for all of them.
#pragma once

#include <cstdint>

#include "bench/workloads.h"

namespace varve::bench {

// Multiplications and additions of matrix products, convolutions and attention (a causal one: the half that counts).
// The rest of a network is bounded by memory, and left out.
struct Work {
  double forward = 0;           // of a batch
  double step = 0;              // forward and both gradients, without that of the network's own input
  std::int64_t parameters = 0;  // trainable
};
Work count_work(const Workload& workload, std::int64_t batch);

}  // namespace varve::bench
