// Building messages: concatenation, byte counts for people, lists. ("Did you mean" is public: varve/error.h.)
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "varve/dtype.h"
#include "varve/error.h"
#include "varve/shape.h"

namespace varve {

// One argument of cat(). Erased, so that a call compiles to a list of pieces and one function prints them all.
class Piece {
 public:
  Piece(std::string_view text) : kind_(Kind::text), text_(text) {}
  Piece(const std::string& text) : Piece(std::string_view(text)) {}
  Piece(const char* text) : Piece(std::string_view(text)) {}
  Piece(char letter) : kind_(Kind::letter), whole_(letter) {}
  Piece(bool value) : Piece(value ? "true" : "false") {}
  Piece(double value) : kind_(Kind::real), real_(value) {}
  Piece(float value) : Piece(double{value}) {}
  Piece(std::ios_base& (*manipulator)(std::ios_base&)) : kind_(Kind::manipulator), manipulator_(manipulator) {}
  Piece(DType dtype) : Piece(name(dtype)) {}
  template <class T>
  requires(std::is_integral_v<T>) Piece(T value)
      : kind_(std::is_signed_v<T> ? Kind::whole : Kind::natural), whole_(static_cast<std::int64_t>(value)) {}
  template <class T>
  requires(!std::is_arithmetic_v<T> && !std::is_convertible_v<const T&, std::string_view>) Piece(const T& value)
      : kind_(Kind::other), other_{&value, [](std::ostream& out, const void* what) {
                                     out << *static_cast<const T*>(what);
                                   }} {}

  void put(std::ostream& out) const;

 private:
  enum class Kind : std::uint8_t { text, letter, whole, natural, real, manipulator, other };
  struct Other {
    const void* value;
    void (*put)(std::ostream& out, const void* value);
  };
  Kind kind_;
  union {
    std::string_view text_;
    std::int64_t whole_;
    double real_;
    std::ios_base& (*manipulator_)(std::ios_base&);
    Other other_;
  };
};
std::string cat_pieces(std::initializer_list<Piece> pieces);

// Everything streamable in one string. DType prints its name, bool true or false, 8-bit integers as numbers.
template <class... Args>
std::string cat(const Args&... args) {
  return cat_pieces({Piece(args)...});
}

std::string human_bytes(std::uint64_t bytes);  // "0 B", "512 B", "12.1 MB" (powers of 1000)

// Quoted and joined: `"a", "b", "c"`.
std::string quoted_list(const std::vector<std::string>& words);

}  // namespace varve
