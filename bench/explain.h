// Why a step takes the time it takes: every operator against the machine's floor, who ran it, and what is left to gain.
#pragma once

#include <string>
#include <vector>

#include "bench/sweep.h"

namespace varve::bench {

// Equal kernels on equal shapes, added up.
struct ExplainedRow {
  std::string kernel = {}, op = {}, shape = {};
  std::vector<std::string> origins = {};  // the layers it serves
  int calls = 0;
  double ms = 0;                                  // of all calls in a step
  double flops = 0;                               // of all calls
  double flops_floor_ms = 0, bytes_floor_ms = 0;  // at the machine's peaks; on a GPU, at those of the operands' type
  std::vector<std::string> refused = {};          // kernels that were asked first, and why they would not
  double floor_ms() const;
  double gap_ms() const;  // above the floor; not below 0
};

struct Explanation {
  Setting setting = {};
  double gflops = 0, gbps = 0;          // peaks of the machine in the setting's precision, all threads
  double step_ms = 0;                   // of the kernels together
  double floor_ms = 0;                  // counted products at the peak
  std::vector<ExplainedRow> rows = {};  // the longest first
  std::vector<std::string> gaps = {};   // the five largest, in words
  int places() const;                   // digits after the point that a kernel's milliseconds deserve
};

struct ExplainOptions {
  int repeats = 5;
};
// Compiles and profiles the step in this process.
Explanation explain(const Setting& setting, const ExplainOptions& options = {});

// The five largest gaps of rows in words. Apart so that it can be tested on rows of any making.
std::vector<std::string> largest_gaps(const Explanation& explanation);

// Refusals by "kernel <- operator", read from a program's own account of who claimed what.
std::vector<std::string> refusals_of(const std::string& account, const std::string& kernel, const std::string& op);

}  // namespace varve::bench
