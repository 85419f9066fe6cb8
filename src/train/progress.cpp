#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "page/numbers.h"
#include "train/clock.h"

namespace varve::train {
namespace {

using page::fixed;
using page::general;

using Clock = std::chrono::steady_clock;

constexpr int kCells = 20, kFewestCells = 5;
constexpr int kUnknownWidth = 120;  // of what is not a terminal but gets a bar all the same

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUnknownWidth;
}

bool other_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const char* rank = std::getenv(name);
    if (rank && *rank) return std::atoi(rank) != 0;
  }
  return false;
}

// Columns that the text takes: bytes that begin a character.
int width(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// The first so many characters, never half of one.
std::string cut(const std::string& text, int columns) {
  std::size_t end = 0;
  for (int seen = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80 && ++seen > columns) break;
  }
  return text.substr(0, end);
}

std::string bar(const ProgressState& state, int cells) {
  const double share = state.steps > 0 ? static_cast<double>(state.done) / static_cast<double>(state.steps) : 1;
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * cells);
  std::string text;
  for (int i = 0; i < cells; ++i) text += i < full ? "━" : "╌";
  return text + ' ';
}

std::string line(const ProgressState& state, int cells) {
  std::string text = "epoch " + std::to_string(state.epoch) + '/' + std::to_string(state.epochs) + ' ';
  if (cells > 0) text += bar(state, cells);
  text += std::to_string(state.done) + '/' + std::to_string(state.steps) + "  " + duration_text(state.seconds);
  if (state.left >= 0 && state.epochs > 1) text += ", " + duration_text(state.left) + " left in epoch";
  if (state.run_left >= 0)
    text += ", " + duration_text(state.run_left) + " in run";
  else if (state.left >= 0 && state.epochs == 1)
    text += ", " + duration_text(state.left) + " left";
  for (const auto& [name, value] : state.values) text += "  " + name + ' ' + value_text(name, value);
  if (state.wire > 0)
    text += "  wire " + general(1e3 * state.wire, 2) + " ms, " + general(1e3 * state.hidden, 2) + " hidden";
  return text;
}

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "? s";
  if (seconds < 59.95) return fixed(std::max(seconds, 0.0), 1) + " s";
  if (seconds < 3599.5) {
    const std::int64_t whole = std::llround(seconds);
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }
  const std::int64_t minutes = std::llround(std::min(seconds, 1e12) / 60);
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

std::string value_text(const std::string& name, double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || size >= 1e6 || (size > 0 && size < 5e-5)) return general(value, 3);
  if (name.ends_with("perplexity")) return fixed(value, 2);
  return fixed(value, size >= 1000 ? 1 : 4);
}

std::string progress_text(const ProgressState& state, int columns) {
  ProgressState shown = state;
  for (;;) {
    const std::string bare = line(shown, 0);
    const int cells = std::min(columns - width(bare) - 1, kCells);
    if (cells >= kFewestCells) return line(shown, cells);
    if (cells >= -1) return bare;
    if (shown.values.empty()) return cut(bare, columns);
    shown.values.erase(shown.values.begin() + (shown.values.size() > 1 ? 1 : 0));
  }
}

ProgressLine::ProgressLine(Verbosity verbosity, int epochs, std::int64_t steps, ProgressSink sink)
    : verbosity_(verbosity),
      sink_(std::move(sink)),
      epochs_(epochs),
      steps_(steps),
      began_(Clock::now()),
      drawn_(began_) {
  if (verbosity_ != Verbosity::automatic) return;
  if (other_rank())
    verbosity_ = Verbosity::quiet;
  else
    verbosity_ = !sink_ && isatty(STDERR_FILENO) ? Verbosity::bar : Verbosity::lines;
}

void ProgressLine::note(const std::string& line) {
  if (verbosity_ == Verbosity::quiet) return;
  if (sink_) return sink_(printable(line), true);
  write((verbosity_ == Verbosity::bar ? "\r\x1b[K" : "") + printable(line) + '\n');
}

void ProgressLine::begin_epoch(int epoch, std::int64_t done) {
  epoch_ = epoch;
  first_ = done;
  wire_ = distributed::wire_time();
  began_ = drawn_ = Clock::now();
  if (verbosity_ == Verbosity::bar) draw(done, 0, {}, false);
}

void ProgressLine::step(std::int64_t done, const Values& values) {
  if (verbosity_ == Verbosity::quiet || seconds_since(drawn_) < (verbosity_ == Verbosity::bar ? 0.1 : 10)) return;
  drawn_ = Clock::now();
  draw(done, seconds_since(began_), values, false);
}

void ProgressLine::end_epoch(double seconds, const Values& values) {
  if (first_ == 0) whole_epoch_ = seconds;
  if (verbosity_ != Verbosity::quiet) draw(steps_, seconds, values, true);
}

void ProgressLine::draw(std::int64_t done, double seconds, const Values& values, bool last) {
  ProgressState state = {.epoch = epoch_, .epochs = epochs_, .done = done, .steps = steps_, .seconds = seconds};
  state.values = values;
  if (done > first_) {
    const distributed::WireTime now = distributed::wire_time();
    const auto steps = static_cast<double>(done - first_);
    state.wire = (now.busy_seconds - wire_.busy_seconds) / steps;
    state.hidden = std::max(0.0, state.wire - (now.waited_seconds - wire_.waited_seconds) / steps);
  }
  if (!last && done > first_ && done < steps_) {
    const double step = seconds / static_cast<double>(done - first_);
    state.left = step * static_cast<double>(steps_ - done);
    const double epoch = whole_epoch_ >= 0 ? whole_epoch_ : step * static_cast<double>(steps_);
    if (epochs_ > epoch_) state.run_left = state.left + epoch * (epochs_ - epoch_);
  }
  if (sink_) {
    sink_(progress_text(state, verbosity_ == Verbosity::bar ? kUnknownWidth : 1 << 20),
          last || verbosity_ == Verbosity::lines);
  } else if (verbosity_ == Verbosity::bar) {
    // One column stays free: a full last one makes some terminals wrap.
    write("\r" + progress_text(state, terminal_columns() - 1) + "\x1b[K" + (last ? "\n" : ""));
  } else {
    write(progress_text(state, 1 << 20) + '\n');
  }
}

}  // namespace varve::train
