#include "base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <sstream>

namespace varve {
namespace {

std::string lower(std::string_view word) {
  std::string text(word);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Letters to insert, remove, change, or swap with their neighbour.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

void Piece::put(std::ostream& out) const {
  switch (kind_) {
    case Kind::text:
      out << text_;
      return;
    case Kind::letter:
      out << static_cast<char>(whole_);
      return;
    case Kind::whole:
      out << whole_;
      return;
    case Kind::natural:
      out << static_cast<std::uint64_t>(whole_);
      return;
    case Kind::real:
      out << real_;
      return;
    case Kind::manipulator:
      out << manipulator_;
      return;
    case Kind::other:
      other_.put(out, other_.value);
      return;
  }
}

std::string cat_pieces(std::initializer_list<Piece> pieces) {
  std::ostringstream out;
  for (const Piece& piece : pieces) piece.put(out);
  return out.str();
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  constexpr std::array units = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < units.size(); ++unit) value /= 1000;  // 999.95 would print as 1000.0
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, units[unit]);
  return text.data();
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters too: C2 80 to C2 9F in UTF-8.
    const bool second = i > 0 && static_cast<unsigned char>(text[i - 1]) == 0xC2 && c >= 0x80 && c < 0xA0;
    const bool first = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                       static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F || first || second) {
      constexpr const char* kDigits = "0123456789abcdef";
      result += {'\\', 'x', kDigits[c >> 4], kDigits[c & 15]};
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "\"" : ", \"") + word + "\"";
  return text;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = lower(word);
  // A third of the letters may be wrong; past that a suggestion is noise. The cap keeps hostile words cheap.
  std::size_t best_distance = std::max<std::size_t>(1, std::min<std::size_t>(wanted.size(), 60) / 3) + 1;
  std::string best;
  if (wanted.size() > 200) return best;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wanted, lower(candidate));
    if (distance < best_distance && distance < candidate.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         const std::string& otherwise) {
  const std::string meant = nearest(word, candidates);
  return meant.empty() ? otherwise : " Did you mean '" + meant + "'?";
}

}  // namespace varve
