// Tables of text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "varve/data.h"

namespace varve::data {

struct CsvRow {
  std::int64_t line = 0;  // where it begins, from 1
  std::vector<std::string> fields;
};

// Fields may be quoted ("a, b", with "" for a quote within) and then hold separators and line ends. Empty lines are
// left out. Error that names the source and the line when a quote does not end or is followed by text.
std::vector<CsvRow> parse_csv(const std::string& text, char separator, const std::string& source);

std::optional<double> csv_number(const std::string& text);  // a finite one, and nothing else in the field
bool has_csv_number(const CsvRow& row);

// Rows, and in which of their fields the columns of an encoder are.
struct CsvTable {
  std::string source;
  std::vector<CsvRow> rows;         // without the header
  std::vector<std::size_t> places;  // of the inputs
  std::optional<std::size_t> target;
};
TableEncoder::Rows encode_rows(const TableEncoder& encoder, const CsvTable& table);

}  // namespace varve::data
