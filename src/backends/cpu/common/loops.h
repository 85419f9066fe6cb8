// What the kernels of this room share: offering one, an axis as three nested loops, elements by size, parallel copies.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "backends/cpu/claims.h"
#include "base/convert.h"
#include "base/text.h"
#include "base/threads.h"

namespace varve::cpu {

using backend::Maker;
using backend::nothing;
using backend::Rows;
using backend::Task;

// Offers the kernel for every call of the operator.
inline void offer(ClaimMap& map, const std::string& op, Maker make) { backend::offer(map, "cpu", op, make); }

// f(o, j) for rows [begin, end) of a nest of loops with `count` steps inside: rows number o · count + j.
template <class F>
void each_row(std::int64_t begin, std::int64_t end, std::int64_t count, F f) {
  if (begin >= end) return;
  std::int64_t o = begin / count, j = begin % count;
  for (std::int64_t row = begin; row < end; ++row) {
    f(o, j);
    if (++j == count) {
      j = 0;
      ++o;
    }
  }
}

// How many steps of so many bytes make a block worth a thread's while.
inline std::int64_t grain_for(std::int64_t bytes) {
  constexpr std::int64_t kBlock = 64 << 10;
  return std::max<std::int64_t>(kBlock / std::max<std::int64_t>(bytes, 1), 1);
}

inline std::int64_t element_bytes(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

// Distances in bytes.
inline const std::byte* at(const void* data, std::int64_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
inline std::byte* at(void* data, std::int64_t offset) { return static_cast<std::byte*>(data) + offset; }

// f(std::type_identity<U>{}) with the unsigned integer of that many bytes.
template <class F>
decltype(auto) dispatch_size(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::type_identity<std::uint8_t>{});
    case 2:
      return f(std::type_identity<std::uint16_t>{});
    case 4:
      return f(std::type_identity<std::uint32_t>{});
    default:
      return f(std::type_identity<std::uint64_t>{});
  }
}

// f(std::type_identity<I>{}) with the type of the indices, i32 or i64.
template <class F>
decltype(auto) dispatch_index(DType dtype, F&& f) {
  if (dtype == i32) return f(std::type_identity<std::int32_t>{});
  return f(std::type_identity<std::int64_t>{});
}

inline constexpr std::int64_t kCopyBlock = 256 << 10;

inline void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (to == from) return;
  parallel_for(bytes, kCopyBlock, [=](std::int64_t begin, std::int64_t end) {
    std::memcpy(at(to, begin), at(from, begin), static_cast<std::size_t>(end - begin));
  });
}

inline void zero_bytes(void* to, std::int64_t bytes) {
  parallel_for(bytes, kCopyBlock, [=](std::int64_t begin, std::int64_t end) {
    std::memset(at(to, begin), 0, static_cast<std::size_t>(end - begin));
  });
}

// A row of a few bytes is copied by one instruction where the size is known; a long one by many threads, unless this is
// one of them already.
inline void copy_row(void* to, const void* from, std::int64_t bytes) {
  switch (bytes) {
    case 1:
      std::memcpy(to, from, 1);
      return;
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    default:
      copy_bytes(to, from, bytes);
  }
}

// The type that elements are added in: 16-bit types in float; integers modulo 2^64, which never overflows.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float,
                               std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>>;

// Element i. 16-bit types by their bits: copying a structure keeps GCC from making SIMD code of the loop around it.
template <class T>
T element(const T* data, std::int64_t i) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    T value;
    value.bits = data[i].bits;
    return value;
  } else {
    return load_as<T>(data, i);
  }
}

// What elements are compared as. 16-bit floating-point types have integers of the same order, twice as many to a vector
// as floats: the magnitude with the sign of the number, so that both zeros are equal.
template <class T>
using Ordered = std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, std::int16_t, T>;

template <bool kLargest, class T>
Ordered<T> ordered(T value) {
  if constexpr (std::is_same_v<Ordered<T>, T>) {
    return value;
  } else {
    constexpr std::int16_t infinity = std::is_same_v<T, half> ? 0x7C00 : 0x7F80;
    constexpr std::int16_t nan = kLargest ? 32767 : -32768;  // beats every number
    const auto magnitude = static_cast<std::int16_t>(value.bits & 0x7FFF);
    const auto number = static_cast<std::int16_t>(static_cast<std::int16_t>(value.bits) < 0 ? -magnitude : magnitude);
    return magnitude > infinity ? nan : number;
  }
}

// Whether `value` goes before `best` as the largest (or smallest): NaN beats every number, equals do not.
template <bool kLargest, class K>
bool beats(K value, K best) {
  const bool further = kLargest ? value > best : value < best;
  if constexpr (std::is_floating_point_v<K>)
    return further | ((value != value) & (best == best));
  else
    return further;
}

}  // namespace varve::cpu
