// Element types, their promotion, and the two 16-bit floating-point formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace varve {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i8, u8, boolean };

inline constexpr DType f64 = DType::f64;
inline constexpr DType f32 = DType::f32;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType i64 = DType::i64;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i8 = DType::i8;
inline constexpr DType u8 = DType::u8;
inline constexpr DType boolean = DType::boolean;

inline constexpr DType kAllDTypes[] = {f64, f32, f16, bf16, i64, i32, i8, u8, boolean};

std::size_t size_of(DType);
const char* name(DType);              // "f32"; boolean is "bool"
DType parse_dtype(std::string_view);  // throws Error, naming the known types
constexpr bool is_floating(DType t) { return t <= DType::bf16; }
constexpr bool is_integer(DType t) { return t >= DType::i64 && t <= DType::u8; }  // bool is neither

// The type of `a op b`. Floating beats integer beats bool; within a kind the wider one wins;
// f16 with bf16 gives f32, and i8 with u8 gives i32 (there is no i16).
DType promote(DType a, DType b);

// IEEE half precision and bfloat16 as storage: computed with after conversion to float, rounded to nearest even.
struct half {
  std::uint16_t bits = 0;
  half() = default;
  explicit half(float value);
  explicit operator float() const;
};

struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);
  explicit operator float() const;
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>)
    return f64;
  else if constexpr (std::is_same_v<T, float>)
    return f32;
  else if constexpr (std::is_same_v<T, half>)
    return f16;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return bf16;
  else if constexpr (std::is_same_v<T, bool>)
    return boolean;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
    return i64;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 4 && std::is_signed_v<T>)
    return i32;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 1 && std::is_signed_v<T>)
    return i8;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "no Varve type holds this C++ type");
    return u8;
  }
}

}  // namespace varve
