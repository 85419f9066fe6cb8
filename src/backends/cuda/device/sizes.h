// Sizes and alignment, as launches and buffers need them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "varve/dtype.h"

namespace varve::cuda {

inline std::int64_t element_bytes(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The power of two that is no less than n > 0.
inline std::int64_t power_above(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

constexpr std::size_t kAlign = 256;  // bytes, of buffers within one piece of memory
inline std::size_t align_up(std::size_t bytes, std::size_t to = kAlign) { return (bytes + to - 1) / to * to; }

// Whether all of these addresses suit accesses of so many bytes.
template <class... Pointers>
bool aligned(std::int64_t bytes, const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % static_cast<std::uintptr_t>(bytes) == 0) && ...);
}
inline bool on_16_bytes(const void* address) { return aligned(16, address); }

}  // namespace varve::cuda
