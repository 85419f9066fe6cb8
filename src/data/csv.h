// Tables of text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace varve::data {

struct CsvRow {
  std::int64_t line = 0;  // where it begins, from 1
  std::vector<std::string> fields;
};

// Fields may be quoted ("a, b", with "" for a quote within) and then hold separators and line ends. Empty lines are
// left out. Error that names the source and the line when a quote does not end or is followed by text.
std::vector<CsvRow> parse_csv(const std::string& text, char separator, const std::string& source);

}  // namespace varve::data
