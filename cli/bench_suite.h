// The commands of `varve bench` that put frameworks side by side.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"
#include "bench/sweep.h"

namespace varve::cli {

// What they have in common.
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

int bench_step(const SuiteOptions& options);
int bench_infer(const SuiteOptions& options);
int bench_parts(const SuiteOptions& options);
int bench_train(const SuiteOptions& options);
int bench_ablate(const SuiteOptions& options);
int bench_quick(const SuiteOptions& options);
int bench_verify(const SuiteOptions& options);
int bench_explain(const SuiteOptions& options);

struct CompareRecordsOptions {
  std::string before = {}, after = {};  // files
  double tolerance = 0.05;
};
int bench_compare(const CompareRecordsOptions& options);

int bench_setup();
int bench_worker(const std::string& request);

// ---- what they share
bench::Sweep sweep_of(const SuiteOptions& options, const std::vector<std::string>& standard);
int verdict(const std::vector<bench::Record>& records);  // the exit code

}  // namespace varve::cli
