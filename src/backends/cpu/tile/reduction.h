// The meaning of each reduction on single values.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/tile/tile.h"

namespace varve::cpu {

// What a reduction over nothing gives. T is double or std::int64_t, the types that sums are carried in.
template <class T>
constexpr T identity(Reduce op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case Reduce::prod:
      return 1;
    case Reduce::max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::min();
    case Reduce::min:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default:
      return 0;
  }
}

// Integers wrap; NaN wins.
template <Reduce op, class T>
constexpr T combine_pair(T a, T b) {
  using U = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  if constexpr (op == Reduce::sum)
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  else if constexpr (op == Reduce::prod)
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  else if constexpr (op == Reduce::max)
    return a != a || a > b ? a : b;
  else
    return a != a || a < b ? a : b;
}

}  // namespace varve::cpu
