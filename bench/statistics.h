// Medians, quartiles, and how sure a ratio of two medians is.
#pragma once

#include <cstdint>
#include <vector>

namespace varve::bench {

double quantile(std::vector<double> values, double share);  // linear between neighbours; Error when empty
double median(const std::vector<double>& values);
double mean(const std::vector<double>& values);
double deviation(const std::vector<double>& values);  // of a sample: n - 1; 0 for one value

struct Interval {
  double low = 0, high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
};

using Groups = std::vector<std::vector<double>>;  // samples, process by process
std::vector<double> pooled(const Groups& groups);

struct BootstrapOptions {
  int rounds = 2000;
  double confidence = 0.95;
  std::uint64_t seed = 1;  // the same samples give the same interval
};
// Of median(a) / median(b). Processes are drawn first, then samples within each: times within one process resemble each
// other more than those of two.
Interval ratio_interval(const Groups& a, const Groups& b, const BootstrapOptions& options = {});

}  // namespace varve::bench
