#include "page/numbers.h"

#include <charconv>

namespace varve::page {
namespace {

std::string written(double value, std::chars_format format, int precision) {
  char text[400];  // the longest double has 309 digits before its point
  const auto [end, error] = std::to_chars(text, text + sizeof text, value, format, precision);
  return error == std::errc() ? std::string(text, end) : "?";
}

}  // namespace

std::string general(double value, int digits) { return written(value, std::chars_format::general, digits); }
std::string fixed(double value, int decimals) { return written(value, std::chars_format::fixed, decimals); }

}  // namespace varve::page
