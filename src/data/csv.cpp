// A table as a data set, and the encoder that is fitted to it.
#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/text.h"
#include "data/parts.h"
#include "varve/data.h"

namespace varve::data {
namespace {

constexpr std::size_t kMostCategories = 1000;

struct Table {
  std::string source;
  std::vector<std::string> columns;
  bool named = false;
  std::vector<CsvRow> rows;
};

// A first line without any number names the columns; otherwise they are called 1, 2, 3 ….
Table read_table(const std::string& path, char separator) {
  if (separator == '"' || separator == '\n' || separator == '\r')
    throw Error("csv: a quote or line end cannot separate.");
  Table table = {.source = cat('"', path, '"')};
  table.rows = parse_csv(load_text(path), separator, table.source);
  if (table.rows.empty()) throw Error(cat(table.source, " is empty."));
  table.named = !has_csv_number(table.rows[0]);
  if (table.named) {
    table.columns = table.rows[0].fields;
    table.rows.erase(table.rows.begin());
  } else {
    for (std::size_t i = 1; i <= table.rows[0].fields.size(); ++i) table.columns.push_back(std::to_string(i));
  }
  if (table.columns.size() < 2)
    throw Error(cat(table.source, ": expected two columns or more. Is the separator '", separator, "'?"));
  if (table.rows.empty()) throw Error(cat(table.source, " has no rows below its header."));
  if (const std::set<std::string> names(table.columns.begin(), table.columns.end());
      names.size() != table.columns.size())
    throw Error(cat(table.source, ": two columns have the same name, among ", quoted_list(table.columns), "."));
  for (const CsvRow& row : table.rows) {
    if (row.fields.size() != table.columns.size()) {
      throw Error(cat(table.source, ", line ", row.line, ": expected ", table.columns.size(), " fields, got ",
                      row.fields.size(), "."));
    }
    for (std::size_t i = 0; i < row.fields.size(); ++i) {
      if (row.fields[i].empty()) {
        throw Error(cat(table.source, ", line ", row.line, ": no value for \"", table.columns[i],
                        "\". Fill it in, or leave the line out."));
      }
    }
  }
  return table;
}

std::size_t target_column(const Table& table, const std::string& target) {
  if (target.empty()) return table.columns.size() - 1;
  const auto found = std::find(table.columns.begin(), table.columns.end(), target);
  if (found != table.columns.end()) return static_cast<std::size_t>(found - table.columns.begin());
  throw Error(cat(table.source, " has no column '", target, "'.",
                  did_you_mean(target, table.columns, cat(" It has ", quoted_list(table.columns), "."))));
}

// The values of the target, sorted, when they are classes: text, or few different whole numbers.
std::vector<std::string> classes_of(const Table& table, std::size_t target) {
  constexpr std::size_t kMostNumbers = 20;
  std::set<std::string> texts;
  std::set<std::pair<double, std::string>> numbers;
  bool whole = true, numeric = true;
  for (const CsvRow& row : table.rows) {
    const std::string& text = row.fields[target];
    const std::optional<double> value = csv_number(text);
    numeric = numeric && value;
    whole = whole && value && *value == std::floor(*value);
    texts.insert(text);
    if (value) numbers.emplace(*value, text);
  }
  if (!numeric) return {texts.begin(), texts.end()};
  if (!whole || texts.size() > kMostNumbers || texts.size() * 2 > table.rows.size()) return {};
  std::vector<std::string> classes;
  for (const auto& [value, text] : numbers) classes.push_back(text);
  return classes;
}

// "nan", "inf" and 1e999 are numbers that nobody can compute with, and no categories.
bool unusable_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return stop == end && error != std::errc::invalid_argument && !csv_number(text);
}

// The texts of a column, sorted; none when it holds numbers. A few texts among numbers are mistakes.
std::vector<std::string> categories_of(const Table& table, std::size_t column) {
  std::set<std::string> texts;
  std::size_t numbers = 0;
  const CsvRow* odd = nullptr;
  for (const CsvRow& row : table.rows) {
    const std::string& text = row.fields[column];
    texts.insert(text);
    if (csv_number(text))
      ++numbers;
    else if (odd == nullptr || unusable_number(text))
      odd = &row;
  }
  if (odd == nullptr) return {};
  if (numbers * 2 > table.rows.size() || unusable_number(odd->fields[column]))
    throw Error(cat(table.source, ", line ", odd->line, ": \"", odd->fields[column], "\" in column \"",
                    table.columns[column], "\" is not a number, as its other values are."));
  if (texts.size() > kMostCategories)
    throw Error(cat(table.source, ": column \"", table.columns[column], "\" has ", texts.size(),
                    " different texts; at most ", kMostCategories,
                    " make categories. Leave out a column that only names its rows."));
  return {texts.begin(), texts.end()};
}

// For a target that is to be numbers: an Error where it is not.
std::vector<std::string> no_classes(const Table& table, std::size_t target) {
  for (const CsvRow& row : table.rows)
    if (!csv_number(row.fields[target]))
      throw Error(cat(table.source, ", line ", row.line, ": \"", row.fields[target], "\" in column \"",
                      table.columns[target], "\" is not a number. Text for a target is a class, which takes the loss ",
                      "cross_entropy."));
  return {};
}

// Mean 0 and deviation 1 over the given rows; a constant column becomes 0.
void fit_scale(TableColumn& fitted, const Table& table, std::size_t column, const std::vector<std::int64_t>& rows) {
  std::vector<double> values;
  for (const std::int64_t row : rows)
    values.push_back(*csv_number(table.rows[static_cast<std::size_t>(row)].fields[column]));
  const auto count = static_cast<double>(values.size());
  double mean = 0, variance = 0;
  // Asked of the values themselves: a rounded mean gives them a tiny variance.
  const bool constant = std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; });
  for (const double value : values) mean += value / count;
  if (constant) mean = values[0];
  for (const double value : values) variance += (value - mean) * (value - mean) / count;
  const double deviation = constant ? 1 : std::sqrt(variance);
  if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation == 0)
    throw Error(cat(table.source, ": the values of column \"", table.columns[column],
                    "\" are too large or too close together to be scaled."));
  fitted.mean = mean;
  fitted.deviation = deviation;
}

TableEncoder fit_encoder(const Table& table, std::size_t target, const CsvOptions& options,
                         const std::vector<std::int64_t>& train) {
  TableEncoder encoder = {
      .inputs = {},
      .target = {.name = table.columns[target],
                 .categories = options.classes ? classes_of(table, target) : no_classes(table, target)},
      .target_place = static_cast<std::int64_t>(target),
      .named = table.named,
      .separator = options.separator};
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i == target) continue;
    TableColumn column = {.name = table.columns[i], .categories = categories_of(table, i)};
    if (options.standardize && column.categories.empty()) fit_scale(column, table, i, train);
    encoder.inputs.push_back(std::move(column));
  }
  if (options.standardize && options.scale_target && encoder.regression())
    fit_scale(encoder.target, table, target, train);
  return encoder;
}

TableEncoder::Rows fitted_rows(const std::string& path, const CsvOptions& options,
                               std::shared_ptr<const TableEncoder>& encoder) {
  Table table = read_table(path, options.separator);
  const std::size_t target = target_column(table, options.target);
  const Parts parts = parts_of(std::ssize(table.rows), options.test_share, table.source);
  encoder = std::make_shared<const TableEncoder>(fit_encoder(table, target, options, parts.train));
  CsvTable found = {.source = table.source, .rows = std::move(table.rows), .places = {}, .target = target};
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (i != target) found.places.push_back(i);
  return encode_rows(*encoder, found);
}

}  // namespace

Splits csv(const std::string& path, const CsvOptions& options) {
  check_test_share("csv", options.test_share);
  const std::string source = cat('"', path, '"');
  std::shared_ptr<const TableEncoder> encoder = options.encoder;
  if (encoder && !options.target.empty() && options.target != encoder->target.name)
    throw Error(cat(source, ": the target \"", options.target,
                    "\" was asked for, but what was fitted before predicts \"", encoder->target.name, "\"."));
  const TableEncoder::Rows rows =
      encoder ? encoder->encode(load_text(path), source) : fitted_rows(path, options, encoder);
  if (!rows.y.defined())
    throw Error(cat(source, " lacks the column \"", encoder->target.name, "\", the target to compare with."));
  const Info info = {
      .name = std::filesystem::path(path).stem().string(), .classes = encoder->target.categories, .table = encoder};
  const Dataset all = from_tensors(rows.x, rows.y, info);
  Parts parts = parts_of(all.size(), options.test_share, source);
  Splits splits = {.train = all.subset(std::move(parts.train))};
  if (!parts.test.empty()) splits.test = all.subset(std::move(parts.test));
  return splits;
}

}  // namespace varve::data
