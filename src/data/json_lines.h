// JSON objects, one on each line, as rows of fields.
#pragma once

#include <string>
#include <vector>

#include "data/table.h"

namespace varve::data {

struct JsonTable {
  Table table;               // columns are the keys of all lines; what a line lacks, and null, is empty
  std::vector<bool> arrays;  // by column: its fields are arrays, written as JSON
  std::vector<bool> prose;   // by column: text with spaces in it
};
// Error that names the source and the line of what is no object, or holds what is no field.
JsonTable read_json_lines(const std::string& text, const std::string& source);
// The key of the target: as asked, or label, target, class or y, or the last.
std::string json_target(const JsonTable& lines, const std::string& asked);

// A nested array of numbers of one shape. Error that begins with `where`.
struct JsonArray {
  Shape shape;
  std::vector<float> values;
};
JsonArray parse_json_array(const std::string& text, const std::string& where);

}  // namespace varve::data
