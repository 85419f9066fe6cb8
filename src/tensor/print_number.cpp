#include "tensor/print_number.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/convert.h"

namespace varve {
namespace {

// value = ± 0.d₁d₂d₃… · 10^point, d₁ not 0 (a zero has the one digit 0 and point 1).
struct Decimal {
  bool negative = false;
  std::string digits;
  int point = 0;
};

// Of "-1.5e+07" as printf and to_chars write it.
Decimal parse(const std::string& text) {
  Decimal d;
  const std::size_t e = text.find('e');
  for (const char c : text.substr(0, e)) {
    if (c == '-')
      d.negative = true;
    else if (c != '.')
      d.digits += c;
  }
  d.point = std::atoi(text.c_str() + e + 1) + 1;
  while (d.digits.size() > 1 && d.digits.back() == '0') d.digits.pop_back();
  return d;
}

std::string with_digits(double value, int after_point) {
  char text[1100];  // the longest double written out
  std::snprintf(text, sizeof text, "%.*e", after_point, value);
  return text;
}

template <class T>
std::string shortest_of(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, static_cast<T>(value), std::chars_format::scientific).ptr;
  return std::string(text, end);
}

// The fewest digits that the 16-bit type reads back as the same value.
template <class T>
std::string shortest_of_16_bits(double value) {
  for (int digits = 0; digits < 5; ++digits) {
    const std::string text = with_digits(value, digits);
    if (cast_to<double>(cast_to<T>(std::strtod(text.c_str(), nullptr))) == value) return text;
  }
  return with_digits(value, 5);
}

Decimal shortest(double value, DType dtype) {
  if (value == 0) return {std::signbit(value), "0", 1};
  switch (dtype) {
    case DType::f32:
      return parse(shortest_of<float>(value));
    case DType::f16:
      return parse(shortest_of_16_bits<half>(value));
    case DType::bf16:
      return parse(shortest_of_16_bits<bfloat16>(value));
    default:
      return parse(shortest_of<double>(value));
  }
}

std::string written_out(const Decimal& d) {
  const int count = static_cast<int>(d.digits.size());
  std::string whole = "0", fraction;
  if (d.point > 0) {
    whole = d.digits.substr(0, static_cast<std::size_t>(d.point));
    if (d.point > count) whole.append(static_cast<std::size_t>(d.point - count), '0');
    if (d.point < count) fraction = d.digits.substr(static_cast<std::size_t>(d.point));
  } else {
    fraction = std::string(static_cast<std::size_t>(-d.point), '0') + d.digits;
  }
  if (fraction.find_first_not_of('0') == std::string::npos) fraction.clear();
  return (d.negative ? "-" : "") + whole + "." + fraction;
}

std::string with_exponent(const std::string& digits, int exponent, int width) {
  std::string text = std::to_string(std::abs(exponent));
  if (text.size() < static_cast<std::size_t>(width)) text.insert(0, static_cast<std::size_t>(width) - text.size(), '0');
  return digits + (exponent < 0 ? "e-" : "e+") + text;
}

}  // namespace

std::string positional(double value, DType dtype, int most) {
  const Decimal d = shortest(value, dtype);
  if (static_cast<int>(d.digits.size()) - d.point <= most) return written_out(d);
  char text[1100];
  std::snprintf(text, sizeof text, "%.*f", most, value);
  std::string rounded = text;
  while (rounded.back() == '0') rounded.pop_back();
  return rounded;
}

std::string scientific(double value, DType dtype, int most) {
  Decimal d = shortest(value, dtype);
  if (static_cast<int>(d.digits.size()) - 1 > most) d = parse(with_digits(value, most));
  return with_exponent((d.negative ? "-" : "") + d.digits.substr(0, 1) + "." + d.digits.substr(1), d.point - 1, 2);
}

std::string scientific_fixed(double value, int digits, int exponent_digits) {
  const std::string text = with_digits(value, digits);
  const std::size_t e = text.find('e');
  std::string mantissa = text.substr(0, e);
  if (digits == 0) mantissa += '.';
  return with_exponent(mantissa, std::atoi(text.c_str() + e + 1), exponent_digits);
}

double largest_plain(DType dtype) { return dtype == f64 ? 1e16 : dtype == f32 ? 1e6 : 1e3; }

std::string scalar_text(double value, DType dtype) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < largest_plain(dtype));
  std::string text = plain ? positional(value, dtype, 400) : scientific(value, dtype, 400);
  if (plain) return text.back() == '.' ? text + '0' : text;
  const std::size_t bare = text.find(".e");
  if (bare != std::string::npos) text.erase(bare, 1);
  return text;
}

}  // namespace varve
