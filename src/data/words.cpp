#include "data/words.h"

#include <algorithm>

namespace varve::data {

std::vector<std::string> by_frequency(const std::unordered_map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::int64_t, const std::string*>> order;
  order.reserve(counts.size());
  for (const auto& [word, count] : counts) order.emplace_back(-count, &word);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  });
  std::vector<std::string> words;
  words.reserve(order.size());
  for (const auto& [count, word] : order) words.push_back(*word);
  return words;
}

}  // namespace varve::data
