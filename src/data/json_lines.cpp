#include "data/json_lines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/text.h"

namespace varve::data {
namespace {

using nlohmann::ordered_json;

constexpr int kMostAxes = 8;

class JsonLineReader {
 public:
  JsonLineReader(const std::string& text, const std::string& source) : text_(text), found_{} {
    found_.table.source = source;
    found_.table.named = true;
  }

  JsonTable run() {
    std::int64_t line = 0;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      read(text_.substr(at, end - at), ++line);
      at = end + 1;
    }
    Table& table = found_.table;
    if (table.rows.empty()) throw Error(cat(table.source, " is empty."));
    for (CsvRow& row : table.rows) row.fields.resize(table.columns.size());
    return std::move(found_);
  }

 private:
  [[noreturn]] void fail(std::int64_t line, const std::string& what) const {
    throw Error(cat(found_.table.source, ", line ", line, ": ", what));
  }

  // Brackets outside of texts: what walks a deep tree would need as deep a stack.
  static bool too_deep(const std::string& line) {
    int depth = 0;
    bool in_text = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (in_text && c == '\\') ++i;
      if (c == '"') in_text = !in_text;
      if (in_text) continue;
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
      if (depth > kMostAxes + 1) return true;
    }
    return false;
  }

  void read(const std::string& line, std::int64_t number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) return;
    if (too_deep(line)) fail(number, cat("arrays are nested more than ", kMostAxes, " deep."));
    CsvRow row = {.line = number, .fields = {}};
    try {
      const ordered_json object = ordered_json::parse(line);
      if (!object.is_object()) fail(number, "expected a JSON object, such as {\"x\": 1, \"y\": 2}.");
      for (const auto& [key, value] : object.items()) {
        const std::size_t column = column_of(key, number);
        if (row.fields.size() <= column) row.fields.resize(column + 1);
        row.fields[column] = field(key, value, column, number);
      }
    } catch (const nlohmann::json::exception& e) {
      fail(number, cat("is not JSON: ", e.what(), "."));
    }
    found_.table.rows.push_back(std::move(row));
  }

  std::size_t column_of(const std::string& key, std::int64_t line) {
    constexpr std::size_t kMostKeys = 10'000;
    const auto [found, added] = places_.try_emplace(key, found_.table.columns.size());
    if (!added) return found->second;
    if (found_.table.columns.size() == kMostKeys)
      fail(line, cat("there are more than ", kMostKeys, " different keys."));
    found_.table.columns.push_back(key);
    found_.arrays.push_back(false);
    found_.prose.push_back(false);
    return found->second;
  }

  std::string field(const std::string& key, const ordered_json& value, std::size_t column, std::int64_t line) {
    if (value.is_null()) return "";
    if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
    if (value.is_number()) return value.dump();
    if (value.is_array()) {
      found_.arrays[column] = true;
      return value.dump();
    }
    if (!value.is_string())
      fail(line,
           cat("\"", key, "\" is an object: expected a number, a text, true, false, null, or an array of numbers."));
    std::string text = value.get<std::string>();
    if (text.find(' ') != std::string::npos) found_.prose[column] = true;
    return text;
  }

  const std::string& text_;
  JsonTable found_;
  std::unordered_map<std::string, std::size_t> places_;
};

// Each level has as many items as the first of that level.
void flatten(const ordered_json& value, int depth, JsonArray& to, std::vector<std::int64_t>& sizes,
             const std::string& where) {
  if (!value.is_array()) {
    if (!value.is_number() || depth != static_cast<int>(sizes.size()))
      throw Error(cat(where, "an array holds ", value.type_name(), " where numbers, all equally deep, are expected."));
    const auto number = value.get<double>();
    to.values.push_back(static_cast<float>(number));
    if (!std::isfinite(to.values.back())) throw Error(cat(where, number, " is too large."));
    return;
  }
  if (depth >= kMostAxes) throw Error(cat(where, "arrays are nested more than ", kMostAxes, " deep."));
  const std::int64_t size = static_cast<std::int64_t>(value.size());
  if (depth == static_cast<int>(sizes.size())) {
    if (!to.values.empty()) throw Error(cat(where, "an array is deeper than those before it."));
    sizes.push_back(size);
  }
  if (size == 0 || sizes[static_cast<std::size_t>(depth)] != size)
    throw Error(cat(where, "an array has ", size, " items where ", sizes[static_cast<std::size_t>(depth)],
                    " are expected, and none is empty."));
  for (const ordered_json& item : value) flatten(item, depth + 1, to, sizes, where);
}

}  // namespace

JsonTable read_json_lines(const std::string& text, const std::string& source) {
  return JsonLineReader(text, source).run();
}

std::string json_target(const JsonTable& lines, const std::string& asked) {
  const std::vector<std::string>& keys = lines.table.columns;
  if (!asked.empty()) return keys[target_column(lines.table, asked)];
  for (const char* usual : {"label", "target", "class", "y"})
    if (std::find(keys.begin(), keys.end(), usual) != keys.end()) return usual;
  return keys.back();
}

JsonArray parse_json_array(const std::string& text, const std::string& where) {
  JsonArray all;
  std::vector<std::int64_t> sizes;
  try {
    flatten(ordered_json::parse(text), 0, all, sizes, where);
  } catch (const nlohmann::json::exception& e) {
    throw Error(cat(where, "is not JSON: ", e.what(), "."));
  }
  all.shape = Shape(sizes);
  return all;
}

}  // namespace varve::data
