#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "varve/error.h"

namespace varve::bench {
namespace {

// std::uniform_int_distribution differs between libraries; this does not.
std::size_t draw(std::mt19937_64& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

double resampled_median(const Groups& groups, std::mt19937_64& random) {
  std::vector<double> drawn;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<double>& from = groups[draw(random, groups.size())];
    for (std::size_t i = 0; i < from.size(); ++i) drawn.push_back(from[draw(random, from.size())]);
  }
  return median(drawn);
}

Groups without_empty(const Groups& groups) {
  Groups kept;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(kept), [](const auto& g) { return !g.empty(); });
  if (kept.empty()) throw Error("statistics: expected at least one sample, got none.");
  return kept;
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) throw Error("statistics: expected at least one sample, got none.");
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - std::floor(at)) * (values[above] - values[below]);
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

double mean(const std::vector<double>& values) {
  if (values.empty()) throw Error("statistics: expected at least one sample, got none.");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (const double v : values) squares += (v - middle) * (v - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::vector<double> pooled(const Groups& groups) {
  std::vector<double> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

Interval ratio_interval(const Groups& a, const Groups& b, const BootstrapOptions& options) {
  const Groups over = without_empty(a), under = without_empty(b);
  std::mt19937_64 random(options.seed);
  std::vector<double> ratios;
  for (int i = 0; i < options.rounds; ++i) {
    const double top = resampled_median(over, random);
    ratios.push_back(top / resampled_median(under, random));
  }
  const double tail = (1 - options.confidence) / 2;
  return {quantile(ratios, tail), quantile(ratios, 1 - tail)};
}

}  // namespace varve::bench
