// One-element meanings that the standard library lacks.
#pragma once

#include <cmath>
#include <cstdint>

namespace varve::cpu {

// The remainder with the sign of the divisor, as in Python.
template <class T>
T python_mod(T x, T y) {
  const T r = std::fmod(x, y);
  if (r == 0) return std::copysign(T{0}, y);
  return (r < 0) != (y < 0) ? r + y : r;
}

}  // namespace varve::cpu
