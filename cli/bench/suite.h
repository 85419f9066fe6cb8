// What the commands of `varve bench` that put frameworks side by side have in common.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/driver.h"
#include "bench/record.h"
#include "bench/sweep.h"
#include "cli/menu.h"
#include "cli/text.h"

namespace varve::cli {

struct SuiteOptions {
  bench::SweepText sweep = {};
  int repeat = 3;         // rounds
  int samples = 5;        // in each round, at least
  double seconds = 1;     // of sampling in each round, at least
  double most = 30;       // at most
  double limit = 900;     // seconds of a process
  double budget = 0;      // seconds of all of it; 0: no limit
  int epochs = 0;         // of training; 0: the workload's own
  std::int64_t seed = 0;  // of the first round of training
  int rows = 25;          // of `explain`
  bool unverified = false;
  std::vector<std::string> modes;  // of peers that have several; empty: all
  std::string json = {};           // where records are added; "": nowhere
  std::string command = {};        // as the user wrote it
};

std::shared_ptr<SuiteOptions> suite_options(const Menu& bench);  // that know the command line
// The words for what to measure, and for how long.
void add_sweep(Command& command, SuiteOptions& options);
void add_timing(Command& command, SuiteOptions& options);

// A driver whose progress goes to stderr and whose records go to the file.
class Run {
 public:
  explicit Run(const SuiteOptions& options);
  std::vector<bench::Record> measure(const std::string& kind, const bench::Sweep& sweep);
  void clear() { progress_.clear(); }

 private:
  bench::DriverOptions driver_options(const SuiteOptions& options);
  Progress progress_{0};
  bench::RecordFile file_;

 public:
  bench::Driver driver;
};

// A mismatch, or Varve without a figure, is a failure; a peer that is missing or lacks something is a row.
int exit_code(const std::vector<bench::Record>& records);

bench::Sweep sweep_of(const SuiteOptions& options, const std::vector<std::string>& standard);

}  // namespace varve::cli
