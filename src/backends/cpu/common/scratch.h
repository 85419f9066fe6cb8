// Carving scratch memory into pieces on cache lines of their own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace varve::cpu {

inline constexpr std::size_t kCacheLine = 64;

constexpr std::size_t cache_aligned(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }
constexpr std::size_t float_bytes(std::int64_t count) {
  return cache_aligned(static_cast<std::size_t>(count) * sizeof(float));
}

inline std::byte* align(void* memory) {
  return reinterpret_cast<std::byte*>(cache_aligned(reinterpret_cast<std::uintptr_t>(memory)));
}

class Carver {
 public:
  explicit Carver(std::byte* memory) : next_(memory) {}
  template <class T>
  T* take(std::size_t count) {
    T* piece = reinterpret_cast<T*>(next_);
    next_ += cache_aligned(count * sizeof(T));
    return piece;
  }

 private:
  std::byte* next_;
};

}  // namespace varve::cpu
