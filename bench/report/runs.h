// What a record of a whole training says, with whatever a file may hold in its place.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"
#include "bench/report/table.h"

namespace varve::bench {

struct EpochPoint {
  double seconds = 0;  // since the beginning of training
  double accuracy = 0;
};
struct TrainingRun {
  double train_seconds = 0, test_seconds = 0;  // 0: unknown
  double test_accuracy = -1;                   // negative: unknown, as below
  double seconds_to_target = -1, epochs_to_target = -1;
  double joules = -1;
  int epochs = 0;
  std::vector<EpochPoint> points = {};  // epochs whose accuracy is known
};
std::vector<TrainingRun> runs_of(const Record& record);

// The named number of every run that knows it.
std::vector<double> of_runs(const std::vector<TrainingRun>& runs, double TrainingRun::*member);

// "12.7 (±0.3)", with so many decimals, or about three digits when negative; "not measured" of none.
Cell mean_cell(const std::vector<double>& values, int decimals = -1);
Cell seconds_cell(const Record* record, double TrainingRun::*member);  // or why there is none
Cell accuracy_cell(const Record* record);                              // in percent

}  // namespace varve::bench
