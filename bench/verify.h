// Equity, checked: every framework trains the same network. Same number of parameters, same counted operations, and,
// from the same weights and batches without dropout, the same losses in the first five steps, as far as rounding allows
// (equity.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/frameworks.h"
#include "bench/workloads.h"

namespace varve::bench {

struct Checked {
  std::string framework = {};
  std::string status = "ok";  // ok mismatch, or that of a worker: failed unsupported out_of_memory missing
  std::string reason = {};
  std::int64_t parameters = 0;
  std::vector<double> losses = {};
  double worst = 0;     // relative difference of a loss to Varve's
  double bound = 0;     // of the last loss
  bool cached = false;  // nothing has changed since it was found equal
};

struct VerifyOptions {
  int threads = 1;
  std::string device = "cpu";
  int ranks = 1;       // that share each batch: their losses must be one rank's
  bool fresh = false;  // ask again, also where nothing has changed
  double limit_seconds = 600;
  std::function<void(const std::string&)> say = {};  // what is being done
};

// Of each framework in turn; Varve is always asked, and comes first. As several ranks, Varve is judged by its own
// losses as one rank, with batch norm by the statistics of all ranks; others, whose batch norm is a rank's, by Varve's
// so. The batch is at most 16: the losses of a network say the same about it at any size, and a check before every
// comparison must be cheap.
std::vector<Checked> verify(const Workload& workload, const std::vector<std::string>& frameworks,
                            const VerifyOptions& options = {});

}  // namespace varve::bench
