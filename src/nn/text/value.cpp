#include <charconv>
#include <cmath>

#include "varve/toml.h"

namespace varve::text {

Value Value::of(bool value) {
  Value v;
  v.kind = boolean;
  v.flag = value;
  return v;
}
Value Value::of(std::int64_t value) {
  Value v;
  v.kind = integer;
  v.whole = value;
  v.real = static_cast<double>(value);
  return v;
}
Value Value::of(double value) {
  Value v;
  v.kind = number;
  v.real = value;
  return v;
}
Value Value::of(std::string value) {
  Value v;
  v.kind = string;
  v.word = std::move(value);
  return v;
}

const Value* Value::find(const std::string& key) const {
  for (const auto& [name, value] : fields)
    if (name == key) return &value;
  return nullptr;
}

void Value::set(const std::string& key, Value value) {
  for (auto& [name, old] : fields)
    if (name == key) return static_cast<void>(old = std::move(value));
  fields.push_back({key, std::move(value)});
}

std::string quoted(const std::string& word) {
  constexpr const char* kHex = "0123456789ABCDEF";
  std::string text = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') {
      (text += '\\') += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      ((text += "\\u00") += kHex[(c >> 4) & 15]) += kHex[c & 15];
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string toml_key(const std::string& key) {
  bool bare = !key.empty();
  for (const char c : key)
    bare &= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  return bare ? key : quoted(key);
}

namespace {

// The shortest text that reads back as the same number, and as a float.
std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

template <class List, class Text>
std::string joined(const List& list, const Text& text) {
  std::string all;
  for (const auto& item : list) all += (all.empty() ? "" : ", ") + text(item);
  return all;
}

bool is_table_array(const Value& value) {
  if (value.kind != Value::array || value.items.empty()) return false;
  for (const Value& item : value.items)
    if (item.kind != Value::table) return false;
  return true;
}

// A table below the top is written out only when it holds arrays of tables (the layers of a block); the others read
// better on one line.
bool is_section(const Value& value) {
  if (value.kind != Value::table) return false;
  for (const auto& [key, field] : value.fields)
    if (is_table_array(field) || is_section(field)) return true;
  return false;
}

void write_section(const Value& table, const std::string& path, bool top, std::string& out) {
  for (const auto& [key, value] : table.fields)
    if (!is_section(value) && !(is_table_array(value)) && !(top && value.kind == Value::table))
      out += toml_key(key) + " = " + value.str() + "\n";
  for (const auto& [key, value] : table.fields) {
    const std::string inner = path.empty() ? toml_key(key) : path + "." + toml_key(key);
    if (is_table_array(value)) {
      for (const Value& item : value.items) {
        out += "\n[[" + inner + "]]\n";
        write_section(item, inner, false, out);
      }
    } else if (is_section(value) || (top && value.kind == Value::table)) {
      out += "\n[" + inner + "]\n";
      write_section(value, inner, false, out);
    }
  }
}

}  // namespace

std::string Value::str() const {
  const auto text_of = [](const Value& v) { return v.str(); };
  const auto field_of = [](const auto& f) { return toml_key(f.key) + " = " + f.value.str(); };
  switch (kind) {
    case boolean:
      return flag ? "true" : "false";
    case integer:
      return std::to_string(whole);
    case number:
      return number_text(real);
    case string:
      return quoted(word);
    case array:
      return "[" + joined(items, text_of) + "]";
    case table:
      return "{" + joined(fields, field_of) + "}";
  }
  return "";
}

std::string Value::described() const {
  switch (kind) {
    case boolean:
      return str();
    case integer:
      return "the integer " + str();
    case number:
      return "the number " + str();
    case string:
      return "the string " + (word.size() > 60 ? quoted(word.substr(0, 57)) + "…" : str());
    case array:
      return "an array";
    case table:
      return "a table";
  }
  return "";
}

std::string toml_document(const Value& table) {
  std::string out;
  write_section(table, "", true, out);
  return out;
}

}  // namespace varve::text
