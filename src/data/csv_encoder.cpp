// Rows of text to samples, by columns that were fitted before.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/text.h"
#include "data/csv.h"
#include "data/lists.h"
#include "varve/ops.h"

namespace varve::data {

namespace {

std::vector<std::string> names_of(const std::vector<TableColumn>& columns) {
  std::vector<std::string> names;
  for (const TableColumn& column : columns) names.push_back(column.name);
  return names;
}

// One column's fields to numbers.
class ColumnReader {
 public:
  ColumnReader(const TableColumn& column, const char* what, const CsvTable& table)
      : column_(column), what_(what), table_(table) {
    for (const std::string& name : column.categories) ids_.emplace(name, ids_.size());
  }

  // With a rule for missing values, what they become.
  bool missing(const CsvRow& row, std::size_t place) const {
    if (column_.missing != Missing::error) return csv_missing(row.fields[place]);
    if (row.fields[place].empty())
      fail(row, cat("no value for \"", column_.name, "\". Fill it in, or leave the line out."));
    return false;
  }
  std::size_t category(const CsvRow& row, std::size_t place) const {
    const std::string& text = missing(row, place) ? column_.fill_category : row.fields[place];
    const auto found = ids_.find(text);
    if (found != ids_.end()) return found->second;
    fail(row, cat("\"", text, "\" is no ", what_, " of \"", column_.name, "\" that the training data had.",
                  did_you_mean(text, column_.categories), " Known: ", some_quoted(column_.categories), "."));
  }
  float number(const CsvRow& row, std::size_t place) const {
    const std::string& text = row.fields[place];
    const std::optional<double> value = missing(row, place) ? column_.fill : csv_value(column_, text);
    if (!value)
      fail(row,
           cat("\"", text, "\" in column \"", column_.name, "\" is not a ", column_.date ? "date" : "number", "."));
    return static_cast<float>((*value - column_.mean) / column_.deviation);
  }

 private:
  [[noreturn]] void fail(const CsvRow& row, const std::string& what) const {
    throw Error(cat(table_.source, ", line ", row.line, ": ", what));
  }

  const TableColumn& column_;
  const char* what_;
  const CsvTable& table_;
  std::unordered_map<std::string, std::size_t> ids_;
};

Tensor encode_inputs(const TableEncoder& encoder, const CsvTable& table) {
  const auto width = static_cast<std::size_t>(encoder.width());
  std::vector<float> x(table.rows.size() * width, 0.f);
  std::size_t first = 0;  // place of the column in a sample
  for (std::size_t i = 0; i < encoder.inputs.size(); ++i) {
    const TableColumn& column = encoder.inputs[i];
    const ColumnReader read(column, "category", table);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      float* sample = x.data() + row * width + first;
      if (column.categories.empty())
        *sample = read.number(table.rows[row], table.places[i]);
      else
        sample[read.category(table.rows[row], table.places[i])] = 1;
      if (column.marks_missing()) sample[1] = read.missing(table.rows[row], table.places[i]) ? 1 : 0;
    }
    first += static_cast<std::size_t>(column.width());
  }
  return tensor(x, {std::ssize(table.rows), encoder.width()});
}

Tensor encode_target(const TableEncoder& encoder, const CsvTable& table) {
  const ColumnReader read(encoder.target, "class", table);
  std::vector<float> numbers;
  std::vector<std::int32_t> labels;
  for (const CsvRow& row : table.rows) {
    if (encoder.regression())
      numbers.push_back(read.number(row, *table.target));
    else
      labels.push_back(static_cast<std::int32_t>(read.category(row, *table.target)));
  }
  return encoder.regression() ? tensor(numbers, {std::ssize(numbers), 1}) : tensor(labels);
}

// Which lines are rows, and in which fields the columns are.
class Layout {
 public:
  Layout(const TableEncoder& encoder, CsvTable& table) : encoder_(encoder), table_(table) {
    if (is_header(table.rows[0])) {
      const CsvRow header = table.rows[0];
      table.rows.erase(table.rows.begin());
      if (table.rows.empty()) throw Error(cat(table.source, " has no rows below its header."));
      fields_ = header.fields.size();
      if (encoder.named)
        by_name(header.fields);
      else
        by_place(header);
    } else {
      fields_ = table.rows[0].fields.size();
      by_place(table.rows[0]);
    }
    for (const CsvRow& row : table.rows)
      if (row.fields.size() != fields_)
        throw Error(
            cat(table.source, ", line ", row.line, ": expected ", fields_, " fields, got ", row.fields.size(), "."));
  }

 private:
  bool is_header(const CsvRow& first) const {
    if (has_csv_number(first)) return false;
    const std::set<std::string> fields(first.fields.begin(), first.fields.end());
    // Rows of text alone are told from a header by the names of the columns.
    return std::any_of(encoder_.inputs.begin(), encoder_.inputs.end(), [&](const TableColumn& column) {
      return column.categories.empty() || (encoder_.named && fields.contains(column.name));
    });
  }

  void by_name(const std::vector<std::string>& header) {
    std::vector<std::string> missing;
    const auto place = [&](const std::string& name) {
      return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
    };
    for (const TableColumn& column : encoder_.inputs) {
      table_.places.push_back(place(column.name));
      if (table_.places.back() == header.size()) missing.push_back(column.name);
    }
    if (!missing.empty())
      throw Error(cat(table_.source, " lacks ", missing.size() == 1 ? "the column " : "the columns ",
                      some_quoted(missing), ". The network was trained with ", some_quoted(names_of(encoder_.inputs)),
                      "; the file has ", some_quoted(header), "."));
    if (const std::size_t at = place(encoder_.target.name); at < header.size()) table_.target = at;
  }

  void by_place(const CsvRow& row) {
    const std::size_t inputs = encoder_.inputs.size();
    const bool with_target = fields_ == inputs + 1;
    if (!with_target && fields_ != inputs)
      throw Error(cat(table_.source, ", line ", row.line, ": expected ", inputs, inputs == 1 ? " field (" : " fields (",
                      some_quoted(names_of(encoder_.inputs)), "), or ", inputs + 1, " with the target \"",
                      encoder_.target.name, "\" in its place, got ", fields_, "."));
    const auto target = static_cast<std::size_t>(encoder_.target_place);
    if (with_target) table_.target = target;
    for (std::size_t i = 0; i < inputs; ++i) table_.places.push_back(i + (with_target && i >= target ? 1 : 0));
  }

  const TableEncoder& encoder_;
  CsvTable& table_;
  std::size_t fields_ = 0;
};

}  // namespace

Tensor encode_targets(const TableEncoder& encoder, const CsvTable& table) { return encode_target(encoder, table); }

TableEncoder::Rows encode_rows(const TableEncoder& encoder, const CsvTable& table) {
  TableEncoder::Rows rows = {.x = encode_inputs(encoder, table), .y = {}, .lines = {}};
  if (table.target) rows.y = encode_target(encoder, table);
  for (const CsvRow& row : table.rows) rows.lines.push_back(row.line);
  return rows;
}

bool TableColumn::marks_missing() const { return missing == Missing::category && categories.empty(); }

std::int64_t TableColumn::width() const {
  return categories.empty() ? 1 + static_cast<std::int64_t>(marks_missing()) : std::ssize(categories);
}

std::int64_t TableEncoder::width() const {
  std::int64_t width = 0;
  for (const TableColumn& column : inputs) width += column.width();
  return width;
}

TableEncoder::Rows encode_lines(const TableEncoder& encoder, CsvTable table) {
  if (table.rows.empty()) throw Error(cat(table.source, " is empty."));
  Layout(encoder, table);
  // A target that is left open is to be predicted.
  if (table.target && std::all_of(table.rows.begin(), table.rows.end(),
                                  [&](const CsvRow& row) { return row.fields[*table.target].empty(); }))
    table.target.reset();
  return encode_rows(encoder, table);
}

TableEncoder::Rows TableEncoder::encode(const std::string& text, const std::string& source) const {
  return encode_lines(*this,
                      {.source = source, .rows = parse_csv(text, separator, source), .places = {}, .target = {}});
}

Tensor TableEncoder::unscaled(const Tensor& values) const {
  if (!regression()) throw Error(cat("unscaled: the target \"", target.name, "\" is a class, not a number."));
  if (target.mean == 0 && target.deviation == 1) return values;
  return values * target.deviation + target.mean;
}

}  // namespace varve::data
