// Carving scratch memory into pieces on cache lines of their own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace varve::cpu {

inline constexpr std::size_t kCacheLine = 64;

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

inline std::byte* align(void* memory) {
  return reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(memory)));
}

class Carver {
 public:
  explicit Carver(std::byte* memory) : next_(memory) {}
  template <class T>
  T* take(std::size_t count) {
    T* piece = reinterpret_cast<T*>(next_);
    next_ += round_up(count * sizeof(T));
    return piece;
  }

 private:
  std::byte* next_;
};

}  // namespace varve::cpu
