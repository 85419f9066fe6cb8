// Two sets of records of the same things: what changed beyond noise.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"

namespace varve::bench {

struct CompareOptions {
  double tolerance = 0.05;         // relative; smaller changes of time are noise, however sure
  double memory_tolerance = 0.10;  // of peak memory
  double accuracy_points = 0.3;    // of test accuracy, in percent
};

struct Change {
  enum class Kind : std::uint8_t { better, worse };
  std::string key = {};   // Record::key()
  std::string what = {};  // time memory accuracy status
  double before = 0, after = 0;
  Interval ratio = {};  // of time: after over before
  std::string before_text = {}, after_text = {};
  Kind kind = Kind::better;
  bool regression = false;  // worse, and Varve's own
};

struct Changes {
  std::vector<Change> changes = {};
  std::vector<std::string> only_before = {}, only_after = {};  // keys
  std::size_t compared = 0;
  bool regressed() const;
};

// Of records with the same key the last one counts. Time has changed when the interval of its ratio leaves out 1 and
// the medians differ by more than the tolerance.
Changes compare(const std::vector<Record>& before, const std::vector<Record>& after,
                const CompareOptions& options = {});

// Mean test accuracy of a record of training; negative when it has none.
double test_accuracy(const Record& record);

}  // namespace varve::bench
