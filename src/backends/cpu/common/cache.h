// The caches as one core sees them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/cpu.h"

namespace varve::cpu {

// AMD reports the caches of all its dies as one, though a core reaches only that of its die: 32 MB.
inline std::int64_t last_level_cache() {
  constexpr std::int64_t kOneDie = 32 << 20;
  return std::min(cache_sizes().l3, kOneDie);
}

}  // namespace varve::cpu
