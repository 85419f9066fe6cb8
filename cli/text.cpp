#include "cli/text.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "varve/error.h"

namespace varve::cli {

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t to) {
  return text + std::string(to - std::min(to, width(text)), ' ');
}
std::string right(const std::string& text, std::size_t to) {
  return std::string(to - std::min(to, width(text)), ' ') + text;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string thousands(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string in_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string skipped_line(const data::Info& info) {
  constexpr std::size_t kNamed = 3;
  const std::size_t count = info.skipped.size();
  if (count == 0) return "";
  const std::vector<std::string> some(info.skipped.begin(),
                                      info.skipped.begin() + static_cast<std::ptrdiff_t>(std::min(count, kNamed)));
  const std::string kind = info.sound ? "sound" : info.vocabulary ? "text" : "picture";
  return thousands(static_cast<std::int64_t>(count)) +
         (count == 1 ? " file is no " + kind + " that can be read, and was skipped: "
                     : " files are no " + kind + "s that can be read, and were skipped: ") +
         printable(joined(some, ", ")) + (count > kNamed ? ", …" : "") + "\n";
}

std::string aligned(std::vector<std::vector<std::string>> rows, const std::string& indent) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) line += i + 1 < row.size() ? padded(row[i], widths[i] + 2) : row[i];
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::show(const std::string& line) {
  if (seconds() < quiet_) return;
  if (!isatty(STDERR_FILENO)) {
    std::cerr << line << std::endl;
    return;
  }
  std::cerr << "\r\x1b[K" << line << std::flush;
  shown_ = true;
}

void Progress::clear() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace varve::cli
