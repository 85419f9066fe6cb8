// Reviews as rows of word ids, and the file that keeps them between runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve::data {

struct ReviewPart {
  std::vector<std::int32_t> tokens;  // of all reviews, one after another
  std::vector<std::int64_t> ends;    // where each ends in tokens
  std::vector<std::uint8_t> labels;
};

// Ids by falling frequency in the training part, whatever the size of vocabulary that is wanted: a smaller one is the
// first words of the whole, so one file serves every choice.
struct Reviews {
  std::vector<std::string> words;  // all, from the reserved two on
  ReviewPart train, test;
};

// `stamp` tells the folders that were read; a cache with another one, or damaged in any way, is no cache.
std::optional<Reviews> load_reviews(const std::string& path, const std::vector<std::int64_t>& stamp);
void save_reviews(const std::string& path, const std::vector<std::int64_t>& stamp, const Reviews& reviews);

}  // namespace varve::data
