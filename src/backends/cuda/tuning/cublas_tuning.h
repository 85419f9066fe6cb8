// Which of the library's algorithms computes a product: the fastest of those that it proposes, found once and kept on
// disk, so that every run of every process computes the same bits.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "backends/cuda/cublas/cublas.h"

namespace varve::cuda {

// Nothing when the library has none.
std::optional<BlasAlgorithm> chosen_algorithm(const BlasGemm& gemm, std::uint32_t alignment);

// Two kernels that do the same, and their operands.
struct Rivals {
  const backend::Prepared *first, *second;
  const std::vector<backend::Port>*in, *out;
  std::vector<std::pair<int, int>> in_place = {};  // (output, input) that share memory, as they will
};
// Found and kept in the same way; one that fails loses, and the first wins where nothing can be measured.
bool first_is_faster(const std::string& key, const Rivals& rivals);

// Choices as text: a product, a tab, and the algorithm's 64 bytes as hexadecimal digits. The first line about a product
// counts, and whatever does not read as one is passed over.
std::string choice_line(const std::string& key, const BlasAlgorithm& algorithm);
std::unordered_map<std::string, BlasAlgorithm> read_choices(const std::string& text);

}  // namespace varve::cuda
