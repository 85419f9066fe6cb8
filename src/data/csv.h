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
// 2024-03-01, 2024/03/01 or 1.3.2024, with or without a time: days since the beginning of 1970.
std::optional<double> csv_date(const std::string& text);
std::string csv_date_text(double days);
bool csv_missing(const std::string& text);  // empty, or a word for that, such as NA
std::optional<double> csv_value(const TableColumn& column, const std::string& text);  // of numbers or dates
bool has_csv_number(const CsvRow& row);                                               // or a date

inline constexpr const char* kNoValue = "(missing)";  // the category of missing values, where they are one

// Rows, and in which of their fields the columns of an encoder are.
struct CsvTable {
  std::string source;
  std::vector<CsvRow> rows;         // without the header
  std::vector<std::size_t> places;  // of the inputs
  std::optional<std::size_t> target;
};
TableEncoder::Rows encode_rows(const TableEncoder& encoder, const CsvTable& table);
// The same of rows as a file has them: with a header or without, with the target or without.
TableEncoder::Rows encode_lines(const TableEncoder& encoder, CsvTable table);
Tensor encode_targets(const TableEncoder& encoder, const CsvTable& table);  // alone

}  // namespace varve::data
