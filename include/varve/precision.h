// What the products of a program are computed in: f32, tf32 or bf16.
#pragma once

#include <string>
#include <string_view>

#include "varve/dtype.h"

namespace varve {

// An element type, and whether products of f32 may round their operands to 10 bits of mantissa. An option `precision`
// takes a type as well: `.precision = bf16`.
struct ProductType {
  DType dtype = f32;
  bool tf32 = false;

  constexpr ProductType(DType type = f32, bool rounded = false) : dtype(type), tf32(rounded) {}
  bool operator==(const ProductType&) const = default;
};

// Several times faster than f32 on GPUs that can. Values stay f32, and so do sums; a processor computes as in f32.
inline constexpr ProductType tf32{f32, true};

std::string name(ProductType);                       // "tf32"
ProductType parse_precision(std::string_view text);  // f32, tf32 or bf16; throws Error, naming them

}  // namespace varve
