#include "base/levers.h"

#include <cstdlib>

namespace varve {

bool lever(std::string_view name) {
  const char* text = std::getenv("VARVE_WITHOUT");
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const std::size_t end = rest.find(',');
    if (rest.substr(0, end) == name) return false;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return true;
}

}  // namespace varve
