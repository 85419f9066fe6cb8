#include "backends/cuda/cublas/cublas_choice.h"

#include <algorithm>
#include <mutex>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/tuning/choices.h"
#include "backends/cuda/tuning/timing.h"
#include "base/levers.h"
#include "base/memory.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr int kCandidates = 8;

// Nothing when there is no memory left to try them.
std::optional<std::size_t> fastest(const BlasGemm& gemm, const std::vector<BlasAlgorithm>& algorithms) {
  std::size_t workspace = 0;
  for (const BlasAlgorithm& algorithm : algorithms) workspace = std::max(workspace, algorithm.workspace);
  const BlasGemm::Bytes bytes = gemm.operand_bytes();
  const std::size_t b = align_up(bytes.a), c = b + align_up(bytes.b), bias = c + align_up(bytes.c);
  const std::size_t scale = bias + align_up(bytes.bias), scratch = scale + kAlign;
  try {
    const std::shared_ptr<ir::Remote> memory = context().allocate(scratch + workspace + kAlign);
    auto* at = static_cast<std::byte*>(memory->address);
    const GemmOperands operands{.a = at,
                                .b = at + b,
                                .bias = at + bias,
                                .c0 = at + c,
                                .scale = at + scale,
                                .c = at + c,
                                .scratch = at + scratch};
    Candidates candidates;
    candidates.reset = [&] { fill_with_numbers(memory->address, memory->bytes); };
    candidates.results = {{at + c, static_cast<std::int64_t>(bytes.c / size_of(gemm.out())), gemm.out()}};
    for (const BlasAlgorithm& algorithm : algorithms)
      candidates.runs.emplace_back([&gemm, &operands, algorithm] { gemm.run(operands, algorithm); });
    return fastest_candidate(candidates);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<BlasAlgorithm> chosen_algorithm(const BlasGemm& gemm, std::uint32_t alignment) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const bool tunes = lever("tuning");
  const ChoiceKey key = choice_key(
      ChoiceKind::gemm, cat(gemm.key(), tunes ? "" : " untuned", lever("same-bits") ? "" : " any order"), {});
  const auto read = [&](const std::string& value) -> std::optional<BlasAlgorithm> {
    BlasAlgorithm algorithm;
    if (!bytes_of_hex(value, &algorithm.algorithm, sizeof algorithm.algorithm)) return std::nullopt;
    return gemm.takes(algorithm) ? std::optional(algorithm) : std::nullopt;
  };
  if (const auto known = choices().find(key))
    if (const auto algorithm = read(*known)) return algorithm;
  const std::vector<BlasAlgorithm> candidates = gemm.candidates(tunes ? kCandidates : 1, alignment);
  if (candidates.empty()) return std::nullopt;
  const bool compares = tunes && candidates.size() > 1 && gemm.operand_bytes().all() < kMostTunedBytes;
  const std::optional<std::size_t> best = compares ? fastest(gemm, candidates) : std::nullopt;
  const BlasAlgorithm& chosen = candidates[best.value_or(0)];
  const std::string value = hex_of(&chosen.algorithm, sizeof chosen.algorithm);
  if (!best) {
    choices().assume(key, value);
    return chosen;
  }
  const std::string kept = choices().keep(key, value);  // perhaps another process's
  return kept == value ? chosen : read(kept).value_or(chosen);
}

}  // namespace varve::cuda
