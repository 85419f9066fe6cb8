#include "page/markup.h"

namespace varve::page {

std::string escaped(const std::string& text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default: {
        const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
        safe += control ? std::string("\xEF\xBF\xBD") : std::string(1, c);
      }
    }
  }
  return safe;
}

std::string shortened(const std::string& text, std::size_t characters) {
  std::size_t seen = 0, kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;
    if (++seen == characters) kept = i;
    if (seen > characters) return text.substr(0, kept) + "…";
  }
  return text;
}

}  // namespace varve::page
