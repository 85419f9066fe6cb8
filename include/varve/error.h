// The one exception type: what was expected, what came, and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace varve {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what) : std::runtime_error(what) {}
};

}  // namespace varve
