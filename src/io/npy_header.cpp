#include "io/npy_header.h"

#include <charconv>
#include <optional>

#include "base/text.h"
#include "varve/error.h"

namespace varve::io {
namespace {

constexpr std::size_t kMostNpyAxes = 64;  // as NumPy 2

class Parser {
 public:
  Parser(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  NpyHeader run() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::int64_t>> shape;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr)
        descr = element_type();
      else if (key == "fortran_order" && !fortran_order)
        fortran_order = boolean_literal();
      else if (key == "shape" && !shape)
        shape = tuple();
      else
        fail(cat("unexpected or repeated key \"", key, "\""));
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("text after the closing brace");
    if (!descr || !fortran_order || !shape) fail("one of the keys descr, fortran_order, shape is missing");
    return {.descr = *descr, .fortran_order = *fortran_order, .shape = *shape};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(cat(source_, ": bad .npy header: ", what, " at character ", at_,
                    ". Expected {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}. Is the file damaged?"));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(cat("expected '", c, "'"));
  }

  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos || end - at_ > 64) fail("a string without an end");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    for (const char c : inside) {
      if (c < ' ' || c > '~' || c == '\\') fail("a string with unexpected characters");  // errors quote it
    }
    at_ = end + 1;
    return std::string(inside);
  }

  std::string element_type() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      throw Error(cat(source_,
                      ": the elements are records of several fields, which no tensor holds. Save each field as "
                      "an array of its own."));
    }
    return string();
  }

  bool boolean_literal() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail("expected True or False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      sizes.push_back(size());
      if (sizes.size() > kMostNpyAxes) fail(cat("more than ", kMostNpyAxes, " axes"));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::int64_t size() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) fail("expected a size, 0 or more and below 2^63");
    at_ = static_cast<std::size_t>(end - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return value;
  }

  std::string_view text_, source_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, std::string_view source) { return Parser(text, source).run(); }

}  // namespace varve::io
