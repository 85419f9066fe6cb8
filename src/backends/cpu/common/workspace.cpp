#include "backends/cpu/common/workspace.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace varve::cpu {

std::size_t workspace_limit() {
  constexpr std::int64_t kDefault = 256, kMost = 1 << 20;
  const char* text = std::getenv("VARVE_WORKSPACE_MB");
  const std::int64_t megabytes = text ? std::strtoll(text, nullptr, 10) : kDefault;
  return static_cast<std::size_t>(std::clamp<std::int64_t>(megabytes, 0, kMost)) << 20;
}

}  // namespace varve::cpu
