// The one exception type: what was expected, what came, and what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

// The text with control characters written as \x1b and the like, line ends and tabs as they are: names out of files
// must not steer a terminal.
std::string printable(std::string_view text);

// Its text is printable, whatever the names in it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what) : std::runtime_error(printable(what)) {}
};

// The candidate closest to `word` by edit distance, ignoring case; "" when none is close enough to be worth suggesting.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// How a message about an unknown word goes on: " Did you mean 'relu'?", or `otherwise` when no candidate is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         const std::string& otherwise = "");

}  // namespace varve
