// Lists of names in messages.
#pragma once

#include <string>
#include <vector>

#include "base/text.h"

namespace varve::data {

// The first twenty, and how many more there are.
inline std::string some_quoted(const std::vector<std::string>& words) {
  constexpr std::size_t kMost = 20;
  if (words.size() <= kMost) return quoted_list(words);
  return cat(quoted_list({words.begin(), words.begin() + kMost}), " and ", words.size() - kMost, " more");
}

}  // namespace varve::data
