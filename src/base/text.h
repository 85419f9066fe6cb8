// Building messages: concatenation, byte counts for people, lists. ("Did you mean" is public: varve/error.h.)
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "varve/dtype.h"
#include "varve/error.h"
#include "varve/shape.h"

namespace varve {

// Everything streamable in one string. DType prints its name, bool true or false, 8-bit integers as numbers.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  const auto put = [&out](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, DType>)
      out << name(value);
    else if constexpr (std::is_same_v<T, bool>)
      out << (value ? "true" : "false");
    else if constexpr (std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::uint8_t>)
      out << int{value};
    else
      out << value;
  };
  (put(args), ...);
  return out.str();
}

std::string human_bytes(std::uint64_t bytes);  // "0 B", "512 B", "12.1 MB" (powers of 1000)

// Quoted and joined: `"a", "b", "c"`.
std::string quoted_list(const std::vector<std::string>& words);

}  // namespace varve
