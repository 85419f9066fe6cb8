// A line on standard error about something that takes long: a bar on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace varve::data {

class Progress {
 public:
  enum class Unit { bytes, items };
  struct Options {
    Unit unit = Unit::items;
    bool quiet = false;
    double after = 0;  // seconds that pass before the first word
  };
  Progress(std::string what, Options options);
  ~Progress();  // ends the bar's line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(std::int64_t done, std::int64_t total);  // total 0: not known

 private:
  using Clock = std::chrono::steady_clock;
  std::string amount(std::int64_t count) const;
  void show(std::int64_t done, std::int64_t total);
  std::string what_;
  Options options_;
  bool terminal_;
  std::int64_t done_ = 0, total_ = 0, shown_ = -1;  // shown_: the last count shown
  Clock::time_point began_, next_;
};

}  // namespace varve::data
