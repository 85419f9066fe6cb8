// Rows and columns of a text.
#include "data/table.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"

namespace varve::data {

char found_separator(const std::string& text) {
  constexpr std::array kKnown = {',', ';', '\t', '|'};
  std::array<std::size_t, kKnown.size()> counts{};
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == '\n' && !quoted) break;
    for (std::size_t i = 0; i < kKnown.size(); ++i) counts[i] += !quoted && c == kKnown[i];
  }
  return kKnown[static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin())];
}

Table read_table(const std::string& text, char separator, const std::string& source) {
  if (separator == '"' || separator == '\n' || separator == '\r')
    throw Error("csv: a quote or line end cannot separate.");
  Table table = {.source = source, .columns = {}, .rows = parse_csv(text, separator, source)};
  if (table.rows.empty()) throw Error(cat(source, " is empty."));
  table.named = !has_csv_number(table.rows[0]);
  if (table.named) {
    table.columns = table.rows[0].fields;
    table.rows.erase(table.rows.begin());
  } else {
    for (std::size_t i = 1; i <= table.rows[0].fields.size(); ++i) table.columns.push_back(std::to_string(i));
  }
  if (table.columns.size() < 2)
    throw Error(cat(source, ": expected two columns or more. Is the separator '", separator, "'?"));
  if (table.rows.empty()) throw Error(cat(source, " has no rows below its header."));
  if (const std::set<std::string> names(table.columns.begin(), table.columns.end());
      names.size() != table.columns.size())
    throw Error(cat(source, ": two columns have the same name, among ", quoted_list(table.columns), "."));
  for (const CsvRow& row : table.rows)
    if (row.fields.size() != table.columns.size())
      throw Error(cat(source, ", line ", row.line, ": expected ", table.columns.size(), " fields, got ",
                      row.fields.size(), "."));
  return table;
}

std::size_t target_column(const Table& table, const std::string& target) {
  if (target.empty()) return table.columns.size() - 1;
  const auto found = std::find(table.columns.begin(), table.columns.end(), target);
  if (found != table.columns.end()) return static_cast<std::size_t>(found - table.columns.begin());
  throw Error(cat(table.source, " has no column '", target, "'.",
                  did_you_mean(target, table.columns, cat(" It has ", quoted_list(table.columns), "."))));
}

TableEncoder::Rows encode_table(const TableEncoder& encoder, Table table, std::size_t target) {
  CsvTable found = {.source = table.source, .rows = std::move(table.rows), .places = {}, .target = target};
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (i != target) found.places.push_back(i);
  return encode_rows(encoder, found);
}

}  // namespace varve::data
