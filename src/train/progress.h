// What a run says while it goes: a bar on a terminal, a line an epoch elsewhere, nothing in other ranks.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "varve/distributed.h"
#include "varve/train.h"

namespace varve::train {

using Values = std::vector<std::pair<std::string, double>>;

// As people read them: "2.9 s", "3 min 12 s", "2 h 5 min"; values with 4 decimals, perplexities with 2.
std::string duration_text(double seconds);
std::string value_text(const std::string& name, double value);

struct ProgressState {
  int epoch = 1, epochs = 1;
  std::int64_t done = 0, steps = 0;
  double seconds = 0;
  double left = -1;      // seconds until this epoch ends; negative: not told
  double run_left = -1;  // and the whole run
  // Among ranks: seconds of a step that values were moving, and how many of them the step computed meanwhile.
  double wire = 0, hidden = 0;
  Values values = {};
};
// "epoch 1/3 ━━━━━━━━━━━━━━━━━━━━ 469/469  2.9 s  loss 0.3121", in at most so many columns: the bar shrinks first, then
// values between the first and the last go.
std::string progress_text(const ProgressState& state, int columns);

class ProgressLine {
 public:
  // steps: of an epoch. automatic becomes a bar when standard error is a terminal, lines when it is not, and quiet in a
  // process whose rank (as MPI launchers tell it in the environment) is not 0. Everything goes to standard error.
  // With a sink, everything goes there, lines without their ends.
  ProgressLine(Verbosity verbosity, int epochs, std::int64_t steps, ProgressSink sink = {});
  void note(const std::string& line);  // a line of its own
  void begin_epoch(int epoch, std::int64_t done = 0);
  void step(std::int64_t done, const Values& values);  // draws at most ten times a second; lines: every ten seconds
  void end_epoch(double seconds, const Values& values);

 private:
  void draw(std::int64_t done, double seconds, const Values& values, bool last);
  Verbosity verbosity_;
  ProgressSink sink_;
  int epochs_, epoch_ = 0;
  std::int64_t steps_, first_ = 0;
  distributed::WireTime wire_;  // when the epoch began
  double whole_epoch_ = -1;     // seconds of the last one, validation included; negative: none ended yet
  std::chrono::steady_clock::time_point began_, drawn_;
};

}  // namespace varve::train
