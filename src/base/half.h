// The bits of half and bfloat16, inline so that loops over them vectorise. See varve/dtype.h for the types.
#pragma once

#include <bit>
#include <cstdint>

#include "varve/dtype.h"

namespace varve {

inline float widen(bfloat16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

inline float widen(half value) {
  const std::uint32_t sign_bit = std::uint32_t{value.bits & 0x8000u} << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign_bit | 0x7F800000u | (magnitude << 13));  // infinity or NaN
  // A denormal is magnitude * 2^-24: put below 0.5, whose last place is just that, and take the 0.5 away again. No
  // float denormal appears on the way, so the result is right also where some library has set flush-to-zero.
  const float normal = std::bit_cast<float>((magnitude << 13) + 0x38000000u);
  const float denormal = std::bit_cast<float>(magnitude | 0x3F000000u) - 0.5f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude < 0x400u ? denormal : normal) | sign_bit);
}

template <class To>
To narrow(float value);

template <>
inline bfloat16 narrow<bfloat16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest_even = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;  // rounding could carry a NaN into infinity
  bfloat16 result;
  result.bits = static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : nearest_even);
  return result;
}

template <>
inline half narrow<half>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign_bit = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t result;
  if (magnitude > 0x7F800000u) {
    result = 0x7E00u | ((magnitude >> 13) & 0x3FFu);  // NaN, made quiet
  } else if (magnitude >= 0x477FF000u) {
    result = 0x7C00u;  // 65520 and above round to infinity
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is denormal: adding 0.5 puts its last place at 2^-24, and the sum rounds to nearest even.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    result = std::bit_cast<std::uint32_t>(sum) - 0x3F000000u;
  } else {
    result = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  }
  half narrowed;
  narrowed.bits = static_cast<std::uint16_t>(sign_bit | result);
  return narrowed;
}

// To float, inexact values to the neighbour with an odd last bit. Narrowing that to 16 bits then rounds as if once,
// where rounding to nearest twice would lose ties.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || value != value) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if ((back < 0 ? -back : back) > (value < 0 ? -value : value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

}  // namespace varve
