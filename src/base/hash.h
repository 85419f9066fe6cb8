// 64-bit hashes for keys of caches and tables. Not for files from strangers: nothing here resists an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace varve {

namespace detail {
inline std::uint64_t hash_mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}
}  // namespace detail

// Order matters: combine(combine(s, a), b) differs from combine(combine(s, b), a).
inline std::uint64_t hash_combine(std::uint64_t seed, std::uint64_t value) {
  return detail::hash_mix(seed ^ 0x9E3779B97F4A7C15u, value ^ 0xD6E8FEB86659FD93u) + 0x2545F4914F6CDD1Du;
}

// Eight bytes at a time, the length mixed in last, so that a trailing zero byte counts.
inline std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed = 0) {
  const char* p = static_cast<const char*>(data);
  std::uint64_t hash = hash_combine(seed, 0xA0761D6478BD642Fu);
  std::size_t left = size;
  for (; left >= 8; left -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    hash = hash_combine(hash, word);
  }
  if (left > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, left);
    hash = hash_combine(hash, word);
  }
  return hash_combine(hash, size);
}

inline std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}

}  // namespace varve
