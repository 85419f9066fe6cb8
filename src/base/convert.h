// Elements of any DType as C++ values, and conversion between all types.
//
// The rules: floating to integer truncates and saturates, NaN gives 0; integer to narrower integer wraps; anything to
// bool is `!= 0`; bool counts as 0 or 1; to a narrower floating type rounds once, to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/half.h"
#include "varve/dtype.h"

namespace varve {

// f(std::type_identity<T>{}) with the C++ type that stores `dtype`.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(std::type_identity<double>{});
    case DType::f32:
      return f(std::type_identity<float>{});
    case DType::f16:
      return f(std::type_identity<half>{});
    case DType::bf16:
      return f(std::type_identity<bfloat16>{});
    case DType::i64:
      return f(std::type_identity<std::int64_t>{});
    case DType::i32:
      return f(std::type_identity<std::int32_t>{});
    case DType::i8:
      return f(std::type_identity<std::int8_t>{});
    case DType::u8:
      return f(std::type_identity<std::uint8_t>{});
    case DType::boolean:
      break;
  }
  return f(std::type_identity<bool>{});
}

namespace detail {

template <class To>
To saturate(double value) {
  // The bounds as doubles: 2^63 is one past the largest int64, hence >= below.
  constexpr double low = static_cast<double>(std::numeric_limits<To>::min());
  constexpr double high = static_cast<double>(std::numeric_limits<To>::max());
  if (value != value) return 0;
  if (value <= low) return std::numeric_limits<To>::min();
  if (value >= high) return std::numeric_limits<To>::max();
  return static_cast<To>(value);
}

}  // namespace detail

// One value from one storage type to another, by the rules above.
template <class To, class From>
To cast_to(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, half> || std::is_same_v<From, bfloat16>) {
    return cast_to<To>(widen(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_same_v<To, half> || std::is_same_v<To, bfloat16>) {
    if constexpr (std::is_same_v<From, float>)
      return narrow<To>(value);
    else
      return narrow<To>(round_to_odd(static_cast<double>(value)));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return detail::saturate<To>(static_cast<double>(value));
  } else {
    return static_cast<To>(value);
  }
}

// Element `index` of an array of `T`, wherever it lies. A stored bool is read as a byte: files may hold 2 or 255.
template <class T>
T load_as(const void* data, std::int64_t index) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<const unsigned char*>(data)[index] != 0;
  } else {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(data) + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
}

template <class T>
void store_as(void* data, std::int64_t index, T value) {
  std::memcpy(static_cast<std::byte*>(data) + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

inline double load_f(const void* data, DType dtype, std::int64_t index) {
  return dispatch(dtype, [&]<class T>(std::type_identity<T>) { return cast_to<double>(load_as<T>(data, index)); });
}
inline void store_f(void* data, DType dtype, std::int64_t index, double value) {
  dispatch(dtype, [&]<class T>(std::type_identity<T>) { store_as<T>(data, index, cast_to<T>(value)); });
}
inline std::int64_t load_i(const void* data, DType dtype, std::int64_t index) {
  return dispatch(dtype,
                  [&]<class T>(std::type_identity<T>) { return cast_to<std::int64_t>(load_as<T>(data, index)); });
}
inline void store_i(void* data, DType dtype, std::int64_t index, std::int64_t value) {
  dispatch(dtype, [&]<class T>(std::type_identity<T>) { store_as<T>(data, index, cast_to<T>(value)); });
}

// n elements. The ranges may be the same when both types have the same size, and must not overlap otherwise. Serial.
void convert(const void* src, DType from, void* dst, DType to, std::int64_t n);

}  // namespace varve
