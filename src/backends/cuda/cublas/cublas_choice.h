// Which of cuBLASLt's algorithms computes a product: the fastest of those that it proposes, timed once.
#pragma once

#include <optional>

#include "backends/cuda/cublas/cublas.h"

namespace varve::cuda {

// Nothing when the library has none.
std::optional<BlasAlgorithm> chosen_algorithm(const BlasGemm& gemm, std::uint32_t alignment);

}  // namespace varve::cuda
