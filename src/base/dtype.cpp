#include "varve/dtype.h"

#include <string>
#include <vector>

#include "base/half.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve {

half::half(float value) : half(narrow<half>(value)) {}
half::operator float() const { return widen(*this); }
bfloat16::bfloat16(float value) : bfloat16(narrow<bfloat16>(value)) {}
bfloat16::operator float() const { return widen(*this); }

std::size_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      break;
  }
  return 1;
}

const char* name(DType t) {
  switch (t) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::i8:
      return "i8";
    case DType::u8:
      return "u8";
    case DType::boolean:
      break;
  }
  return "bool";
}

DType parse_dtype(std::string_view text) {
  std::vector<std::string> known;
  for (const DType t : kAllDTypes) {
    if (text == name(t)) return t;
    known.emplace_back(name(t));
  }
  throw Error(
      cat("unknown element type '", text, "'.", did_you_mean(text, known), " Known: ", quoted_list(known), "."));
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const auto kind = [](DType t) { return is_floating(t) ? 2 : is_integer(t) ? 1 : 0; };
  if (kind(a) != kind(b)) return kind(a) > kind(b) ? a : b;
  // Same kind, different types: equal sizes are f16 with bf16, or i8 with u8, and neither holds the other's values.
  if (size_of(a) == size_of(b)) return is_floating(a) ? f32 : i32;
  return size_of(a) > size_of(b) ? a : b;
}

}  // namespace varve
