// Words, counted.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace varve::data {

inline constexpr std::int32_t kUnknown = 1;  // the id of words that a vocabulary does not have

// The most frequent first; equally frequent ones in the order of their bytes.
std::vector<std::string> by_frequency(const std::unordered_map<std::string, std::int64_t>& counts);

}  // namespace varve::data
