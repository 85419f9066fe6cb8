// An encoder, fitted to a table: which columns are numbers, dates or categories, their scale, and what missing values
// become.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "data/table.h"

namespace varve::data {
namespace {

constexpr std::size_t kMostCategories = 1000;

// "nan", "inf" and 1e999 are numbers that nobody can compute with, and no categories.
bool unusable_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return stop == end && error != std::errc::invalid_argument && !csv_number(text);
}

class ColumnFit {
 public:
  ColumnFit(const Table& table, std::size_t column, const std::vector<std::int64_t>& train)
      : table_(table), column_(column), train_(train) {}

  TableColumn input(const CsvOptions& options) const {
    TableColumn fitted = {.name = table_.columns[column_], .categories = {}};
    fitted.missing = options.missing;
    fitted.date = dates();
    if (!fitted.date) fitted.categories = categories(options.missing);
    fitted.missing_count = missing_count(options.missing);
    const bool numbers = fitted.date || fitted.categories.empty();
    if (numbers && options.standardize) scale(fitted);
    if (options.missing != Missing::error) numbers ? fill_number(fitted) : fill_category(fitted);
    return fitted;
  }

  TableColumn target(const CsvOptions& options) const {
    for (const CsvRow& row : table_.rows) check_there(row);
    TableColumn fitted = {.name = table_.columns[column_], .categories = options.classes ? classes() : no_classes()};
    if (options.standardize && options.scale_target && fitted.categories.empty()) scale(fitted);
    return fitted;
  }

 private:
  [[noreturn]] void fail(const CsvRow& row, const std::string& what) const {
    throw Error(cat(table_.source, ", line ", row.line, ": ", what));
  }
  const std::string& name() const { return table_.columns[column_]; }
  const std::string& text(const CsvRow& row) const { return row.fields[column_]; }

  void check_there(const CsvRow& row) const {
    if (text(row).empty()) fail(row, cat("no value for \"", name(), "\". Fill it in, or leave the line out."));
  }

  // Without a rule for missing values, empty fields are mistakes, and "NA" is a text like others.
  bool missing(const CsvRow& row, Missing rule) const {
    if (rule != Missing::error) return csv_missing(text(row));
    if (text(row).empty())
      fail(row, cat("no value for \"", name(),
                    "\". Fill it in, leave the line out, or say what to do: missing = mean, median, frequent or "
                    "category (data.missing=mean)."));
    return false;
  }
  std::int64_t missing_count(Missing rule) const {
    return std::count_if(table_.rows.begin(), table_.rows.end(), [&](const CsvRow& row) { return missing(row, rule); });
  }

  bool dates() const {
    bool some = false;
    for (const CsvRow& row : table_.rows) {
      if (csv_missing(text(row))) continue;
      if (!csv_date(text(row))) return false;
      some = true;
    }
    return some;
  }

  // The texts of a column, sorted; none when it holds numbers. A few texts among numbers are mistakes.
  std::vector<std::string> categories(Missing rule) const {
    std::set<std::string> texts;
    std::size_t numbers = 0, there = 0;
    const CsvRow* odd = nullptr;
    for (const CsvRow& row : table_.rows) {
      if (missing(row, rule)) continue;
      ++there;
      texts.insert(text(row));
      if (csv_number(text(row)))
        ++numbers;
      else if (odd == nullptr || unusable_number(text(row)))
        odd = &row;
    }
    if (there == 0) throw Error(cat(table_.source, ": column \"", name(), "\" has no values. Leave it out."));
    if (odd == nullptr) return {};
    if (numbers * 2 > there || unusable_number(text(*odd)))
      fail(*odd, cat("\"", text(*odd), "\" in column \"", name(), "\" is not a number, as its other values are."));
    if (texts.size() > kMostCategories)
      throw Error(cat(table_.source, ": column \"", name(), "\" has ", texts.size(), " different texts; at most ",
                      kMostCategories, " make categories. Leave out a column that only names its rows."));
    return {texts.begin(), texts.end()};
  }

  // The values of the target, sorted, when they are classes: text, or few different whole numbers.
  std::vector<std::string> classes() const {
    constexpr std::size_t kMostNumbers = 20;
    std::set<std::string> texts;
    std::set<std::pair<double, std::string>> numbers;
    bool whole = true, numeric = true;
    for (const CsvRow& row : table_.rows) {
      const std::optional<double> value = csv_number(text(row));
      numeric = numeric && value;
      whole = whole && value && *value == std::floor(*value);
      texts.insert(text(row));
      if (value) numbers.emplace(*value, text(row));
    }
    if (!numeric) return {texts.begin(), texts.end()};
    if (!whole || texts.size() > kMostNumbers || texts.size() * 2 > table_.rows.size()) return {};
    std::vector<std::string> all;
    for (const auto& [value, written] : numbers) all.push_back(written);
    return all;
  }

  // For a target that is to be numbers: an Error where it is not.
  std::vector<std::string> no_classes() const {
    for (const CsvRow& row : table_.rows)
      if (!csv_number(text(row)))
        fail(row, cat("\"", text(row), "\" in column \"", name(),
                      "\" is not a number. Text for a target is a class, which takes the loss cross_entropy."));
    return {};
  }

  // Of the rows to fit to that have one.
  std::vector<double> values(const TableColumn& fitted) const {
    std::vector<double> found;
    for (const std::int64_t row : train_)
      if (const auto value = csv_value(fitted, text(table_.rows[static_cast<std::size_t>(row)])))
        found.push_back(*value);
    if (found.empty())
      throw Error(cat(table_.source, ": column \"", name(), "\" has no values in the training part. Leave it out."));
    return found;
  }

  // Mean 0 and deviation 1; a constant column becomes 0.
  void scale(TableColumn& fitted) const {
    const std::vector<double> all = values(fitted);
    const auto count = static_cast<double>(all.size());
    double mean = 0, variance = 0;
    // Asked of the values themselves: a rounded mean gives them a tiny variance.
    const bool constant = std::all_of(all.begin(), all.end(), [&](double v) { return v == all[0]; });
    for (const double value : all) mean += value / count;
    if (constant) mean = all[0];
    for (const double value : all) variance += (value - mean) * (value - mean) / count;
    const double deviation = constant ? 1 : std::sqrt(variance);
    if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation == 0)
      throw Error(cat(table_.source, ": the values of column \"", name(),
                      "\" are too large or too close together to be scaled."));
    fitted.mean = mean;
    fitted.deviation = deviation;
  }

  void fill_number(TableColumn& fitted) const {
    std::vector<double> all = values(fitted);
    std::sort(all.begin(), all.end());
    if (fitted.missing == Missing::median) {
      fitted.fill = (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
    } else if (fitted.missing == Missing::frequent) {
      std::size_t most = 0;
      for (auto at = all.begin(); at != all.end();) {
        const auto end = std::upper_bound(at, all.end(), *at);
        if (static_cast<std::size_t>(end - at) > most) {
          most = static_cast<std::size_t>(end - at);
          fitted.fill = *at;
        }
        at = end;
      }
    } else {
      for (const double value : all) fitted.fill += value / static_cast<double>(all.size());
    }
  }

  // The most frequent category, or one of their own.
  void fill_category(TableColumn& fitted) const {
    if (fitted.missing == Missing::category) {
      fitted.fill_category = kNoValue;
      if (std::find(fitted.categories.begin(), fitted.categories.end(), kNoValue) == fitted.categories.end())
        fitted.categories.push_back(kNoValue);
      return;
    }
    std::map<std::string, std::int64_t> counts;
    for (const std::int64_t row : train_) {
      const std::string& value = text(table_.rows[static_cast<std::size_t>(row)]);
      if (!csv_missing(value)) ++counts[value];
    }
    std::int64_t most = 0;
    for (const auto& [value, count] : counts)
      if (count > most) {
        most = count;
        fitted.fill_category = value;
      }
    if (most == 0)
      throw Error(cat(table_.source, ": column \"", name(), "\" has no values in the training part. Leave it out."));
  }

  const Table& table_;
  std::size_t column_;
  const std::vector<std::int64_t>& train_;
};

}  // namespace

TableEncoder fit_encoder(const Table& table, std::size_t target, const CsvOptions& options,
                         const std::vector<std::int64_t>& train) {
  TableEncoder encoder = {.inputs = {},
                          .target = ColumnFit(table, target, train).target(options),
                          .target_place = static_cast<std::int64_t>(target),
                          .named = table.named,
                          .separator = options.separator};
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (i != target) encoder.inputs.push_back(ColumnFit(table, i, train).input(options));
  return encoder;
}

}  // namespace varve::data
