// Values as what they should be, or a message that says where they are not.
#include "varve/toml.h"

namespace varve::text {
namespace {

std::string plain(double value) {
  const std::string text = Value::of(value).str();
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

}  // namespace

void Place::fail(const Value& at, const std::string& message) const {
  std::string text = file;
  if (!file.empty()) text += at.line > 0 ? ":" + std::to_string(at.line) + ": " : ": ";
  if (!what.empty()) text += what + ": ";
  throw Error(text + message);
}

void Place::expected(const Value& at, const std::string& wanted) const {
  fail(at, "expected " + wanted + ", got " + at.described() + ".");
}

bool Place::flag(const Value& value) const {
  if (value.kind != Value::boolean) expected(value, "true or false");
  return value.flag;
}

std::int64_t Place::whole(const Value& value, std::int64_t low, std::int64_t high) const {
  if (value.kind != Value::integer || value.whole < low || value.whole > high)
    expected(value, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
  return value.whole;
}

double Place::number(const Value& value, double low, double high) const {
  const bool is_number = value.kind == Value::integer || value.kind == Value::number;
  if (!is_number || !(value.real >= low && value.real <= high)) {
    expected(value, high < 1e30   ? "a number from " + plain(low) + " to " + plain(high)
                    : low > -1e30 ? "a number of at least " + plain(low)
                                  : "a number");
  }
  return value.real;
}

const std::string& Place::word(const Value& value) const {
  if (value.kind != Value::string) expected(value, "a string");
  return value.word;
}

std::vector<double> Place::numbers(const Value& value) const {
  constexpr double kAny = 1e300;
  if (value.kind != Value::array) return {number(value, -kAny, kAny)};
  std::vector<double> all;
  for (const Value& item : value.items) all.push_back(number(item, -kAny, kAny));
  return all;
}

std::vector<std::string> Place::words(const Value& value) const {
  if (value.kind == Value::string) return {value.word};
  if (value.kind != Value::array) expected(value, "a string or an array of strings");
  std::vector<std::string> all;
  for (const Value& item : value.items) all.push_back(word(item));
  return all;
}

}  // namespace varve::text
