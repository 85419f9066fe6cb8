#pragma once

#include <cstddef>
#include <cstdint>

namespace varve::cpu {

// A position, for containers.
inline std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace varve::cpu
