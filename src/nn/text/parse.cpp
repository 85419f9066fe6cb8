// The one place that knows the TOML library.
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "varve/toml.h"

namespace varve::text {
namespace {

constexpr std::size_t kMostBytes = 8 << 20;
constexpr int kDeepest = 32;

[[noreturn]] void refuse(const std::string& name, std::size_t line, const std::string& message) {
  throw Error((name.empty() ? "" : name + ":" + std::to_string(line) + ": ") + message);
}

// The library builds and destroys nested tables recursively: a key with a hundred thousand dots would overflow the
// stack. This walks over strings and comments as TOML reads them, and counts the dots of each key.
class KeyDots {
 public:
  KeyDots(const std::string& text, const std::string& name) : text_(text), name_(name) {}

  void check() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"' || c == '\'')
        skip_string(c);
      else if (c == '#')
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      else if (c == '\n' || c == '=' || c == ',' || c == '{' || c == '[')
        dots_ = 0, line_ += c == '\n';
      else if (c == '.' && ++dots_ > kDeepest)
        refuse(name_, line_, "a key with more than " + std::to_string(kDeepest) + " dots.");
    }
  }

 private:
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool lines = text_.compare(at_, 3, three) == 0;
    for (at_ += lines ? 3 : 1; at_ < text_.size(); ++at_) {
      line_ += text_[at_] == '\n';
      if (text_[at_] == '\\' && quote == '"')
        ++at_;
      else if (!lines && (text_[at_] == quote || text_[at_] == '\n'))
        return;
      else if (lines && text_.compare(at_, 3, three) == 0)
        return static_cast<void>(at_ += 2);
    }
  }

  const std::string& text_;
  const std::string& name_;
  std::size_t at_ = 0, line_ = 1;
  int dots_ = 0;
};

Value converted(const toml::node& node, const std::string& name, int depth);

template <class Date>
std::string date_text(const Date& date) {
  std::ostringstream out;
  out << date;
  return out.str();
}

Value scalar(const toml::node& node) {
  if (const auto* v = node.as_boolean()) return Value::of(v->get());
  if (const auto* v = node.as_integer()) return Value::of(v->get());
  if (const auto* v = node.as_floating_point()) return Value::of(v->get());
  if (const auto* v = node.as_string()) return Value::of(v->get());
  if (const auto* v = node.as_date()) return Value::of(date_text(v->get()));
  if (const auto* v = node.as_time()) return Value::of(date_text(v->get()));
  if (const auto* v = node.as_date_time()) return Value::of(date_text(v->get()));
  return {};
}

// The library keeps keys in alphabetical order: they go back to the order of the file.
Value table_of(const toml::table& table, const std::string& name, int depth) {
  std::vector<std::pair<toml::source_position, std::pair<std::string, const toml::node*>>> keys;
  for (const auto& [key, node] : table) keys.push_back({key.source().begin, {std::string(key.str()), &node}});
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Value value;
  for (const auto& [position, key] : keys)
    value.fields.push_back({std::string(key.first), converted(*key.second, name, depth + 1)});
  return value;
}

Value converted(const toml::node& node, const std::string& name, int depth) {
  if (depth > kDeepest)
    refuse(name, node.source().begin.line, "nested more than " + std::to_string(kDeepest) + " deep.");
  Value value;
  if (const toml::table* table = node.as_table()) {
    value = table_of(*table, name, depth);
  } else if (const toml::array* array = node.as_array()) {
    value.kind = Value::array;
    for (const toml::node& item : *array) value.items.push_back(converted(item, name, depth + 1));
  } else {
    value = scalar(node);
  }
  value.line = static_cast<int>(node.source().begin.line);
  return value;
}

}  // namespace

Value parse_toml(const std::string& text, const std::string& name) {
  if (text.size() > kMostBytes)
    throw Error(name + ": " + std::to_string(text.size()) + " bytes are too many for a TOML file; 8 MB is the limit.");
  KeyDots(text, name).check();
  try {
    const toml::table document = toml::parse(text, name);
    return converted(document, name, 0);
  } catch (const toml::parse_error& e) {
    refuse(name, e.source().begin.line, "not TOML: " + std::string(e.description()));
  }
}

Value parse_toml_value(const std::string& text) {
  if (text.find('\n') != std::string::npos) throw Error("a value must stand on one line.");
  Value document = parse_toml("value = " + text, "");
  if (document.fields.size() != 1) throw Error("one value was expected.");
  Value value = std::move(document.fields[0].value);
  value.line = 0;
  return value;
}

}  // namespace varve::text
