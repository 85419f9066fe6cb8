// Text for people: aligned tables, numbers with thousands, progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "varve/data.h"

namespace varve::cli {

std::size_t width(const std::string& text);                   // in columns: UTF-8 characters
std::string padded(const std::string& text, std::size_t to);  // with spaces on the right
std::string right(const std::string& text, std::size_t to);   // on the left
std::string fixed(double value, int digits);                  // 3.14
std::string thousands(std::int64_t value);                    // 11,926
std::string joined(const std::vector<std::string>& words, const std::string& between);
std::string in_cell(std::string text);  // of a Markdown table: with its bars escaped

std::string csv_field(const std::string& text);  // in quotes where it needs them
// "3 files are no pictures that can be read, and were skipped: a.tif, b.tif, c.txt\n"; "" when there are none.
std::string skipped_line(const data::Info& info);

// Columns as wide as their widest cell, two spaces between them; the first row is the head. Cells become printable.
std::string aligned(std::vector<std::vector<std::string>> rows, const std::string& indent = "");

// One line on stderr, rewritten in place on a terminal. Silent in the first `quiet` seconds.
class Progress {
 public:
  explicit Progress(double quiet) : quiet_(quiet) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& line);
  void clear();
  double seconds() const;

 private:
  double quiet_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace varve::cli
