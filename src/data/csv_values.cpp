// What a field of a table says: a number, a date, or that there is no value.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "data/csv.h"

namespace varve::data {
namespace {

// Reads digits and marks from the left.
class Scan {
 public:
  explicit Scan(const std::string& text) : at_(text.data()), end_(text.data() + text.size()) {}
  bool done() const { return at_ == end_; }
  bool mark(char c) {
    if (done() || *at_ != c) return false;
    ++at_;
    return true;
  }
  // So many digits, or one less where `few` allows it.
  std::optional<int> digits(int count, bool few = false) {
    int value = 0, have = 0;
    for (; have < count && !done() && *at_ >= '0' && *at_ <= '9'; ++have) value = value * 10 + (*at_++ - '0');
    if (have == count || (few && have + 1 == count && have > 0)) return value;
    return std::nullopt;
  }
  double fraction() {  // after the dot
    double value = 0, place = 0.1;
    for (; !done() && *at_ >= '0' && *at_ <= '9'; place /= 10) value += place * (*at_++ - '0');
    return value;
  }

 private:
  const char *at_, *end_;
};

std::optional<double> days_of(int year, int month, int day) {
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
}

// 2024-03-01, 2024/03/01 or 1.3.2024.
std::optional<double> read_day(const std::string& text, Scan& scan) {
  const bool year_first = text.size() > 4 && (text[4] == '-' || text[4] == '/');
  if (year_first) {
    const auto year = scan.digits(4);
    const char mark = text[4];
    if (!year || !scan.mark(mark)) return std::nullopt;
    const auto month = scan.digits(2, true);
    if (!month || !scan.mark(mark)) return std::nullopt;
    const auto day = scan.digits(2, true);
    return day ? days_of(*year, *month, *day) : std::nullopt;
  }
  const auto day = scan.digits(2, true);
  if (!day || !scan.mark('.')) return std::nullopt;
  const auto month = scan.digits(2, true);
  if (!month || !scan.mark('.')) return std::nullopt;
  const auto year = scan.digits(4);
  return year ? days_of(*year, *month, *day) : std::nullopt;
}

// hh:mm, hh:mm:ss or hh:mm:ss.f, with Z or ±hh:mm: as a share of a day, of universal time where a zone is given.
std::optional<double> read_time(Scan& scan) {
  const auto hour = scan.digits(2, true);
  if (!hour || !scan.mark(':')) return std::nullopt;
  const auto minute = scan.digits(2);
  double second = 0;
  if (scan.mark(':')) {
    const auto whole = scan.digits(2);
    if (!whole) return std::nullopt;
    second = *whole + (scan.mark('.') ? scan.fraction() : 0);
  }
  if (!minute || *hour > 24 || *minute > 59 || second >= 61) return std::nullopt;
  double share = (*hour * 60 + *minute + second / 60) / 1440;
  if (scan.mark('Z') || scan.done()) return share;
  const double sign = scan.mark('+') ? 1 : scan.mark('-') ? -1 : 0;
  const auto hours = scan.digits(2);
  scan.mark(':');
  const auto minutes = scan.digits(2);
  if (sign == 0 || !hours || !minutes) return std::nullopt;
  return share - sign * (*hours * 60 + *minutes) / 1440.0;
}

}  // namespace

std::optional<double> csv_number(const std::string& text) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  double value = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> csv_date(const std::string& text) {
  constexpr std::size_t kShortest = 8, kLongest = 40;
  if (text.size() < kShortest || text.size() > kLongest) return std::nullopt;
  Scan scan(text);
  const std::optional<double> day = read_day(text, scan);
  if (!day || scan.done()) return day;
  if (!scan.mark('T') && !scan.mark(' ')) return std::nullopt;
  const std::optional<double> time = read_time(scan);
  return time && scan.done() ? std::optional(*day + *time) : std::nullopt;
}

std::string csv_date_text(double days) {
  constexpr double kMost = 3'000'000;  // beyond the year 9999
  if (!(std::abs(days) < kMost)) return cat(days);
  const auto whole = static_cast<int>(std::floor(days));
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(whole))};
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02u", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  const auto minutes = static_cast<int>(std::lround((days - whole) * 1440));
  return minutes == 0 ? text.data()
                      : cat(text.data(), " ", minutes / 600, minutes / 60 % 10, ":", minutes % 60 / 10, minutes % 10);
}

bool csv_missing(const std::string& text) {
  constexpr std::array kMarks = {"", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?"};
  return std::find(kMarks.begin(), kMarks.end(), text) != kMarks.end();
}

std::optional<double> csv_value(const TableColumn& column, const std::string& text) {
  return column.date ? csv_date(text) : csv_number(text);
}

bool has_csv_number(const CsvRow& row) {
  return std::any_of(row.fields.begin(), row.fields.end(), [](const std::string& field) {
    return csv_number(field).has_value() || csv_date(field).has_value();
  });
}

std::string TableColumn::value_text(double value) const { return date ? csv_date_text(value) : cat(value); }

std::string TableColumn::missing_text() const {
  if (missing_count == 0) return "";
  const std::string what =
      cat("\"", name, "\": ", missing_count, missing_count == 1 ? " missing value" : " missing values");
  if (!categories.empty())
    return missing == Missing::category ? what + ", a category of their own"
                                        : cat(what, ", taken as \"", fill_category, "\"");
  const char* how = missing == Missing::median     ? ", the median"
                    : missing == Missing::frequent ? ", the most frequent"
                    : missing == Missing::category ? ", the mean, and marked by an input of their own"
                                                   : ", the mean";
  return cat(what, ", taken as ", value_text(fill), how);
}

}  // namespace varve::data
