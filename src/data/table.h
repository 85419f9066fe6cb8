// A table in memory, and the encoder that is fitted to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/csv.h"
#include "varve/data.h"

namespace varve::data {

struct Table {
  std::string source;  // for messages: a file in quotes
  std::vector<std::string> columns;
  bool named = false;
  std::vector<CsvRow> rows;
};

// A first line without any number or date names the columns; otherwise they are called 1, 2, 3 …. Error when rows are
// of different lengths. Fields may be missing.
Table read_table(const std::string& text, char separator, const std::string& source);
char found_separator(const std::string& text);                             // that the first line has most of: , ; tab |
std::size_t target_column(const Table& table, const std::string& target);  // "": the last

// To rows `train` of the table: categories are those of all rows. Error that names the line of what cannot be a value.
TableEncoder fit_encoder(const Table& table, std::size_t target, const CsvOptions& options,
                         const std::vector<std::int64_t>& train);
// The rows with that encoder's columns.
TableEncoder::Rows encode_table(const TableEncoder& encoder, Table table, std::size_t target);
// As a data set, a share of which is held out to test.
Splits table_splits(const TableEncoder::Rows& rows, const std::shared_ptr<const TableEncoder>& encoder,
                    double test_share, const std::string& name, const std::string& source);

}  // namespace varve::data
