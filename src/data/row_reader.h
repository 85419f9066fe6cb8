// Files of rows, CSV or JSON lines: gone through once to fit what belongs to them, then read one by one.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/json_lines.h"
#include "data/text_rows.h"

namespace varve::data {

class RowReader {
 public:
  RowReader(bool json, JsonlOptions options) : json_(json), options_(std::move(options)) {}

  // A file's rows: how many there are. Of those that `counted` says (null: all) the encoder is fitted.
  std::int64_t look(const std::string& text, const std::string& source, const std::vector<bool>* counted = nullptr);
  void finish();  // after all files
  Dataset read(const std::string& text, const std::string& source) const;
  void name(const std::string& name) { info_.name = name; }

 private:
  enum class Kind : std::uint8_t { unknown, table, prose, array };

  JsonTable parsed(const std::string& text, const std::string& source) const;
  void begin(const JsonTable& lines);
  std::size_t place_of(const JsonTable& lines, const std::string& column) const;
  void keep(const CsvRow& row, bool counted);
  bool brings_category(const CsvRow& row);
  void thin_out();
  CsvTable targets_of(const JsonTable& lines) const;
  Dataset read_prose(const JsonTable& lines) const;
  Dataset read_arrays(const JsonTable& lines) const;
  Dataset read_table_rows(const JsonTable& lines) const;

  bool json_;
  JsonlOptions options_;
  Kind kind_ = Kind::unknown;
  std::string input_;  // of prose and arrays: the column
  Table kept_;         // rows to fit to: all, or some where there are many; of prose and arrays their targets
  struct Kept {
    std::int64_t number;
    bool counted, always;  // always: it brought a category
  };
  std::vector<Kept> marks_;  // of the kept rows
  std::vector<std::set<std::string>> seen_;
  std::int64_t rows_ = 0, stride_ = 1;
  std::size_t target_ = 0;
  char separator_ = ',';
  WordCounter words_;
  std::shared_ptr<const TableEncoder> encoder_;
  Info info_ = {.name = ""};
};

}  // namespace varve::data
