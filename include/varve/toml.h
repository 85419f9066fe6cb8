// TOML documents as plain values, each with the line it stands on: what network files and configurations are read from.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "varve/error.h"

namespace varve::text {

struct Field;

struct Value {
  enum Kind : std::uint8_t { boolean, integer, number, string, array, table };
  Kind kind = table;
  bool flag = false;
  std::int64_t whole = 0;  // integer only
  double real = 0;         // number, and integer as well
  std::string word;        // string
  std::vector<Value> items;
  std::vector<Field> fields;  // of a table, in the order of the file
  int line = 0;

  static Value of(bool value);
  static Value of(std::int64_t value);
  static Value of(double value);
  static Value of(std::string value);

  const Value* find(const std::string& key) const;  // null when there is none
  void set(const std::string& key, Value value);    // replaced, or added at the end
  std::string str() const;                          // as TOML writes it, on one line
  std::string described() const;                    // `the integer 3`, `a table`: for messages
};
struct Field {  // of a table
  std::string key;
  Value value;
};

// Dates are read as strings. Error: "name:line: what is wrong". Documents are at most 8 MB, and nested 32 deep.
Value parse_toml(const std::string& text, const std::string& name);
Value parse_toml_value(const std::string& text);  // what stands right of an equals sign

std::string quoted(const std::string& word);   // "with \"escapes\""
std::string toml_key(const std::string& key);  // bare where TOML allows it
// `top = value` lines, then [tables] and [[arrays of tables]].
std::string toml_document(const Value& table);

// Where in which file something was expected: messages begin with "name:line: ", or with nothing when there is no file.
struct Place {
  std::string file;  // "" for a value given on the command line
  std::string what;  // "conv2d: kernel"

  Place inside(const std::string& key) const { return {file, what.empty() ? key : what + ": " + key}; }
  [[noreturn]] void fail(const Value& at, const std::string& message) const;
  [[noreturn]] void expected(const Value& at, const std::string& wanted) const;  // "…: expected …, got …"

  bool flag(const Value& value) const;
  std::int64_t whole(const Value& value, std::int64_t low, std::int64_t high) const;
  double number(const Value& value, double low, double high) const;
  const std::string& word(const Value& value) const;
  std::vector<double> numbers(const Value& value) const;     // one, or an array
  std::vector<std::string> words(const Value& value) const;  // one, or an array
};

}  // namespace varve::text
