// The one exception type: what was expected, what came, and what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what) : std::runtime_error(what) {}
};

// The candidate closest to `word` by edit distance, ignoring case; "" when none is close enough to be worth suggesting.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace varve
