#include "data/fetch_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace varve::data {

Progress::Progress(std::string what, Options options)
    : what_(std::move(what)), options_(options), terminal_(isatty(STDERR_FILENO) == 1), began_(Clock::now()) {
  next_ = began_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.after));
}

Progress::~Progress() {
  if (shown_ < 0) return;
  if (shown_ != done_) show(done_, total_);
  if (terminal_) std::fputc('\n', stderr);
}

void Progress::update(std::int64_t done, std::int64_t total) {
  done_ = done;
  total_ = total;
  if (options_.quiet || done == 0 || Clock::now() < next_) return;
  show(done, total);
  next_ = Clock::now() + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000));
}

std::string Progress::amount(std::int64_t count) const {
  if (options_.unit == Unit::items) return std::to_string(count);
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MB", static_cast<double>(count) * 1e-6);
  return text;
}

void Progress::show(std::int64_t done, std::int64_t total) {
  shown_ = done;
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  std::string line = what_ + "  ";
  if (total > 0) {
    constexpr std::int64_t kCells = 20;
    const std::int64_t full = std::clamp<std::int64_t>(done / std::max<std::int64_t>(total / kCells, 1), 0, kCells);
    for (std::int64_t i = 0; terminal_ && i < kCells; ++i) line += i < full ? "━" : "╌";
    line += (terminal_ ? "  " : "") + amount(done) + " of " + amount(total);
  } else {
    line += amount(done);
  }
  char time[32];
  std::snprintf(time, sizeof(time), "  %.0f s", seconds);
  std::fprintf(stderr, terminal_ ? "\r%s%s\033[K" : "%s%s\n", line.c_str(), time);
}

}  // namespace varve::data
