#include "data/sampling.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "data/random_order.h"

namespace varve::data {

std::vector<std::int64_t> weighted_order(const std::vector<double>& weights, Random random) {
  std::vector<double> ends(weights.size());
  std::partial_sum(weights.begin(), weights.end(), ends.begin());
  std::vector<std::int64_t> order;
  if (weights.empty()) return order;
  const auto last = std::lower_bound(ends.begin(), ends.end(), ends.back());  // that has any weight
  for (std::size_t i = 0; i < weights.size(); ++i)
    order.push_back(std::min(std::upper_bound(ends.begin(), ends.end(), random.uniform() * ends.back()), last) -
                    ends.begin());
  return order;
}

std::vector<std::int64_t> balanced_order(const std::vector<std::int64_t>& labels, const Random& within,
                                         const Random& among) {
  struct Class {
    std::vector<std::int64_t> samples;
    std::size_t next = 0;
  };
  std::map<std::int64_t, Class> by_label;
  // The samples of each class lie in shuffled order.
  for (const std::int64_t sample : permutation(std::ssize(labels), within))
    by_label[labels[static_cast<std::size_t>(sample)]].samples.push_back(sample);
  std::vector<Class*> classes;
  for (auto& [label, of_class] : by_label) classes.push_back(&of_class);
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Class& own = *classes[i % classes.size()];
    order.push_back(own.samples[own.next++ % own.samples.size()]);
  }
  // Classes in turn, mixed.
  std::vector<std::int64_t> mixed;
  for (const std::int64_t place : permutation(std::ssize(order), among))
    mixed.push_back(order[static_cast<std::size_t>(place)]);
  return mixed;
}

}  // namespace varve::data
