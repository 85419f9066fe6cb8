// Candidates that compute the same, compared and timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backends/cuda/device/kernel_texts.h"
#include "varve/dtype.h"

namespace varve::cuda {

// Numbers of all kinds, for on equal ones a GPU draws less power and is faster than it will be: as bf16, and so as the
// upper half of a float, from 1/4 to 1, and nothing infinite in other types.
enum class Signs { both, positive };
void fill_with_numbers(void* to, std::size_t bytes, Signs signs = Signs::both);

// Elements of a result, in memory that lies at one piece.
struct Result {
  const void* address;
  std::int64_t count;
  DType dtype;
};

struct Candidates {
  std::vector<std::function<void()>> runs;  // each able to run within a recording
  std::function<void()> reset;              // fills the operands: every candidate begins with the same ones
  std::vector<Result> results;
};
// The number of the fastest. Each is run once and must give the first one's results before it is timed; one that fails
// or disagrees is left out, and where the first fails the next one stands for it. Nothing when none works.
std::optional<std::size_t> fastest_candidate(const Candidates& candidates);

// Whether two samples of a result are equal but for rounding: the same numbers that are not finite, and others that
// differ by a small part of the largest.
bool agree(const std::vector<double>& a, const std::vector<double>& b);

constexpr std::size_t kMostTunedBytes = std::size_t{1} << 30;  // of operands: larger problems take the first candidate

// Kernels that do the same, the preferred one first, and their operands.
struct KernelChoice {
  std::string problem;
  std::vector<KernelText> kernels;  // of ours that take part
  const std::vector<backend::Port>&in, &out;
  std::vector<std::pair<int, int>> in_place = {};  // (output, input) that share memory, as they will
};
// The fastest, as timed before or now; the first where nothing can be measured.
backend::Prepared fastest_kernel(const KernelChoice& choice, backend::Prepared first, backend::Prepared second);

}  // namespace varve::cuda
