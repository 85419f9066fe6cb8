// Targets as numbers of classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "varve/dtype.h"

namespace varve::data {

// Element i of an array of integers or booleans.
inline std::int64_t integer_at(const std::byte* values, DType dtype, std::size_t i) {
  const auto load = [&](auto value) {
    std::memcpy(&value, values + i * sizeof(value), sizeof(value));
    return static_cast<std::int64_t>(value);
  };
  switch (dtype) {
    case DType::i64:
      return load(std::int64_t{});
    case DType::i32:
      return load(std::int32_t{});
    case DType::i8:
      return load(std::int8_t{});
    default:
      return load(std::uint8_t{});
  }
}

}  // namespace varve::data
