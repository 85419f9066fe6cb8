#include "base/text.h"
#include "data/csv.h"

namespace varve::data {
namespace {

class CsvParser {
 public:
  CsvParser(const std::string& text, char separator, const std::string& source)
      : text_(text), separator_(separator), source_(source) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a mark that some programs put before UTF-8
  }

  std::vector<CsvRow> run() {
    std::vector<CsvRow> rows;
    while (at_ < text_.size()) {
      CsvRow row = {.line = line_};
      do row.fields.push_back(field());
      while (taken(separator_));
      end_line();
      if (row.fields.size() > 1 || !row.fields[0].empty()) rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  bool taken(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void end_line() {
    taken('\r');
    if (at_ < text_.size() && !taken('\n'))
      throw Error(cat(source_, ", line ", line_, ": text after a closing quote."));
    ++line_;
  }

  static std::string trimmed(const std::string& field) {
    const std::size_t begin = field.find_first_not_of(" \t"), end = field.find_last_not_of(" \t");
    return begin == std::string::npos ? "" : field.substr(begin, end - begin + 1);
  }

  std::string field() {
    if (taken('"')) return quoted();
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' &&
           !(text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n')) {
      ++at_;
    }
    return trimmed(text_.substr(begin, at_ - begin));
  }

  std::string quoted() {
    const std::int64_t began = line_;
    std::string field;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && !taken('"')) return field;
      if (c == '\n') ++line_;
      field += c;
    }
    throw Error(cat(source_, ", line ", began, ": a quote does not end."));
  }

  const std::string& text_;
  char separator_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace

std::vector<CsvRow> parse_csv(const std::string& text, char separator, const std::string& source) {
  return CsvParser(text, separator, source).run();
}

}  // namespace varve::data
