#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/text.h"
#include "data/random_order.h"
#include "varve/data.h"

namespace varve::data {
namespace {

std::optional<double> number(const std::string& text) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  double value = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

struct Table {
  std::string source;
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
};

// A first line without any number names the columns; otherwise they are called 1, 2, 3 ….
Table read_table(const std::string& path, char separator) {
  if (separator == '"' || separator == '\n' || separator == '\r')
    throw Error("csv: a quote or line end cannot separate.");
  Table table = {.source = cat('"', path, '"')};
  table.rows = parse_csv(load_text(path), separator, table.source);
  if (table.rows.empty()) throw Error(cat(table.source, " is empty."));
  const std::vector<std::string> first = table.rows[0].fields;
  if (std::none_of(first.begin(), first.end(), [](const std::string& field) { return number(field).has_value(); })) {
    table.columns = first;
    table.rows.erase(table.rows.begin());
  } else {
    for (std::size_t i = 1; i <= first.size(); ++i) table.columns.push_back(std::to_string(i));
  }
  if (table.columns.size() < 2)
    throw Error(cat(table.source, ": expected two columns or more. Is the separator '", separator, "'?"));
  if (table.rows.empty()) throw Error(cat(table.source, " has no rows below its header."));
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
    const std::optional<double> value = number(text);
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

struct Columns {
  std::vector<float> x, y;
  std::vector<std::int32_t> labels;
};

Columns numbers_of(const Table& table, std::size_t target, const std::vector<std::string>& classes) {
  Columns columns;
  std::unordered_map<std::string, std::int32_t> labels;
  for (const std::string& name : classes) labels.emplace(name, static_cast<std::int32_t>(labels.size()));
  for (const CsvRow& row : table.rows) {
    for (std::size_t i = 0; i < row.fields.size(); ++i) {
      const std::string& text = row.fields[i];
      if (i == target && !classes.empty()) {
        columns.labels.push_back(labels.at(text));
        continue;
      }
      const std::optional<double> value = number(text);
      if (!value) {
        throw Error(cat(table.source, ", line ", row.line, ": \"", text, "\" in column \"", table.columns[i],
                        "\" is not a number. Only the target may be text."));
      }
      (i == target ? columns.y : columns.x).push_back(static_cast<float>(*value));
    }
  }
  return columns;
}

// Each of `width` columns to mean 0 and deviation 1 over the given rows; a constant column becomes 0.
void standardize(std::vector<float>& x, std::size_t width, const std::vector<std::int64_t>& rows) {
  const auto count = static_cast<double>(rows.size());
  for (std::size_t column = 0; column < width; ++column) {
    const auto at = [&](std::int64_t row) { return double{x[static_cast<std::size_t>(row) * width + column]}; };
    double mean = 0, variance = 0;
    bool constant = true;  // asked of the values themselves: a rounded mean gives them a tiny variance
    for (const std::int64_t row : rows) {
      mean += at(row) / count;
      constant = constant && at(row) == at(rows[0]);
    }
    if (constant) mean = at(rows[0]);
    for (const std::int64_t row : rows) variance += (at(row) - mean) * (at(row) - mean) / count;
    const double scale = constant ? 1 : 1 / std::sqrt(variance);
    for (std::size_t i = column; i < x.size(); i += width) x[i] = static_cast<float>((double{x[i]} - mean) * scale);
  }
}

}  // namespace

Splits csv(const std::string& path, const CsvOptions& options) {
  if (!(options.test_share >= 0 && options.test_share < 1)) {
    throw Error(cat("csv: test_share must be from 0 to less than 1, got ", options.test_share, "."));
  }
  const Table table = read_table(path, options.separator);
  const std::size_t target = target_column(table, options.target), width = table.columns.size() - 1;
  const Info info = {.name = std::filesystem::path(path).stem().string(), .classes = classes_of(table, target)};
  Columns columns = numbers_of(table, target, info.classes);

  const std::int64_t count = std::ssize(table.rows);
  const auto held = static_cast<std::int64_t>(std::llround(options.test_share * static_cast<double>(count)));
  std::vector<std::int64_t> test = permutation(count, Random(0, 0, kSplitStream));
  std::vector<std::int64_t> train(test.begin() + held, test.end());
  test.resize(static_cast<std::size_t>(held));
  for (auto* part : {&train, &test}) std::sort(part->begin(), part->end());
  if (train.empty()) throw Error(cat(table.source, ": no rows are left to train with."));
  if (options.standardize) standardize(columns.x, width, train);

  const Tensor x = tensor(columns.x, {count, static_cast<std::int64_t>(width)});
  const Dataset all = from_tensors(x, info.classes.empty() ? tensor(columns.y) : tensor(columns.labels), info);
  Splits splits = {.train = all.subset(std::move(train))};
  if (held > 0) splits.test = all.subset(std::move(test));
  return splits;
}

}  // namespace varve::data
