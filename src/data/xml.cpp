#include "data/xml.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace varve::data {
namespace {

constexpr int kMostDepth = 32;

class XmlParser {
 public:
  XmlParser(const std::string& text, const std::string& source) : text_(text), source_(source) {}

  XmlNode run() {
    taken("\xEF\xBB\xBF");  // a mark that some programs put before UTF-8
    skip_asides();
    if (!taken("<")) fail("expected an element");
    XmlNode root = element(0);
    skip_asides();
    if (at_ < text_.size()) fail("there is something after the end of its element");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(cat(source_, ", line ", line(), ": ", what, "."));
  }
  // Counted on from where it was asked last.
  std::int64_t line() const {
    for (const std::size_t end = std::min(at_, text_.size()); counted_ < end; ++counted_)
      lines_ += text_[counted_] == '\n';
    return lines_;
  }
  bool taken(std::string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  void skip_past(std::string_view end, const char* what) {
    const std::size_t found = text_.find(end, at_);
    if (found == std::string::npos) fail(cat(what, " does not end"));
    at_ = found + end.size();
  }
  bool skip_aside() {
    if (taken("<!--")) return skip_past("-->", "a comment"), true;
    if (taken("<?")) return skip_past("?>", "an instruction"), true;
    return false;
  }
  void skip_asides() {
    do skip_space();
    while (skip_aside());
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::string_view(" \t\r\n/>=<&\"'").find(text_[at_]) == std::string_view::npos) ++at_;
    if (at_ == begin) fail("expected a name");
    return text_.substr(begin, at_ - begin);
  }
  // name="value", any number of times.
  void skip_attributes() {
    for (skip_space(); at_ < text_.size() && text_[at_] != '>' && text_[at_] != '/'; skip_space()) {
      name();
      skip_space();
      if (!taken("=")) fail("expected = and a value");
      skip_space();
      const char quote = at_ < text_.size() ? text_[at_++] : '\0';
      if (quote != '"' && quote != '\'') fail("expected a value in quotes");
      skip_past({&quote, 1}, "a value");
    }
  }

  char entity() {
    constexpr std::array<std::pair<std::string_view, char>, 5> kKnown = {
        {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}}};
    for (const auto& [word, c] : kKnown)
      if (taken(word)) return c;
    fail("an & that begins none of &amp; &lt; &gt; &quot; &apos;");
  }

  static std::string trimmed(const std::string& text) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
    return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
  }

  // After its "<".
  XmlNode element(int depth) {
    if (depth == kMostDepth) fail(cat("elements are nested more than ", kMostDepth, " deep"));
    XmlNode node = {.name = {}, .text = {}, .children = {}, .line = line()};
    node.name = name();
    skip_attributes();
    if (taken("/>")) return node;
    if (!taken(">")) fail(cat("the element <", node.name, " does not end"));
    std::string text;
    while (true) {
      if (at_ >= text_.size()) fail(cat("<", node.name, "> of line ", node.line, " is not closed"));
      if (skip_aside()) continue;
      if (taken("</")) break;
      if (taken("<")) {
        node.children.push_back(element(depth + 1));
      } else if (taken("&")) {
        text += entity();
      } else {
        text += text_[at_++];
      }
    }
    if (const std::string closed = name(); closed != node.name)
      fail(cat("</", closed, "> closes <", node.name, "> of line ", node.line));
    skip_space();
    if (!taken(">")) fail(cat("</", node.name, " does not end"));
    node.text = trimmed(text);
    return node;
  }

  const std::string& text_;
  const std::string& source_;
  std::size_t at_ = 0;
  mutable std::size_t counted_ = 0;
  mutable std::int64_t lines_ = 1;
};

}  // namespace

const XmlNode* XmlNode::find(const std::string& child) const {
  const auto found = std::find_if(children.begin(), children.end(), [&](const XmlNode& n) { return n.name == child; });
  return found == children.end() ? nullptr : &*found;
}

XmlNode parse_xml(const std::string& text, const std::string& source) { return XmlParser(text, source).run(); }

}  // namespace varve::data
