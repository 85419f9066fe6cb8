#include "data/buckets.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace varve::data {
namespace {

constexpr std::size_t kMostDistinct = 512;  // lengths that may end a bucket: the search is quadratic in them

// Lengths that may end a bucket, and how many samples are as long or shorter.
struct Ends {
  std::vector<std::int64_t> lengths, samples;
};

Ends ends_of(const std::vector<std::int64_t>& sorted) {
  Ends ends;
  std::size_t distinct = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) distinct += i == 0 || sorted[i] != sorted[i - 1];
  const std::size_t each = (distinct + kMostDistinct - 1) / std::max<std::size_t>(kMostDistinct, 1);
  std::size_t seen = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i + 1 < sorted.size() && sorted[i + 1] == sorted[i]) continue;
    if (++seen % each != 0 && i + 1 < sorted.size()) continue;
    ends.lengths.push_back(sorted[i]);
    ends.samples.push_back(static_cast<std::int64_t>(i) + 1);
  }
  return ends;
}

}  // namespace

std::vector<std::int64_t> bucket_lengths(std::vector<std::int64_t> lengths, std::int64_t count) {
  std::sort(lengths.begin(), lengths.end());
  const Ends ends = ends_of(lengths);
  const std::size_t n = ends.lengths.size(), most = std::min(static_cast<std::size_t>(count), n);
  if (n == 0) return {};
  // steps[k][j]: the fewest, of samples up to end j in k + 1 buckets; from[k][j]: where the last of them begins
  std::vector<std::vector<double>> steps(most, std::vector<double>(n, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<std::size_t>> from(most, std::vector<std::size_t>(n, 0));
  for (std::size_t j = 0; j < n; ++j)
    steps[0][j] = static_cast<double>(ends.lengths[j]) * static_cast<double>(ends.samples[j]);
  for (std::size_t k = 1; k < most; ++k)
    for (std::size_t j = k; j < n; ++j)
      for (std::size_t i = k - 1; i < j; ++i) {
        const double all = steps[k - 1][i] + static_cast<double>(ends.lengths[j]) *
                                                 static_cast<double>(ends.samples[j] - ends.samples[i]);
        if (all >= steps[k][j]) continue;
        steps[k][j] = all;
        from[k][j] = i;
      }
  std::vector<std::int64_t> found;
  for (std::size_t k = most, j = n - 1; k > 0; --k) {
    found.push_back(std::max<std::int64_t>(ends.lengths[j], 1));
    j = from[k - 1][j];
  }
  std::reverse(found.begin(), found.end());
  return found;
}

Bucketed in_buckets(const std::vector<std::int64_t>& order, const std::vector<std::int64_t>& lengths,
                    const std::vector<std::int64_t>& buckets, std::int64_t batch) {
  std::vector<std::vector<std::int64_t>> waiting(buckets.size());
  Bucketed made;
  made.order.reserve(order.size());
  const auto complete = [&](std::size_t bucket) {
    made.order.insert(made.order.end(), waiting[bucket].begin(), waiting[bucket].end());
    made.steps.push_back(buckets[bucket]);
    waiting[bucket].clear();
  };
  const auto add = [&](std::size_t bucket, std::int64_t sample) {
    waiting[bucket].push_back(sample);
    if (std::ssize(waiting[bucket]) == batch) complete(bucket);
  };
  for (const std::int64_t sample : order) {
    const std::int64_t length = lengths[static_cast<std::size_t>(sample)];
    const auto fits = std::lower_bound(buckets.begin(), buckets.end(), length);
    add(std::min(static_cast<std::size_t>(fits - buckets.begin()), buckets.size() - 1), sample);
  }
  for (std::size_t bucket = 0; bucket + 1 < buckets.size(); ++bucket)
    for (const std::int64_t sample : std::exchange(waiting[bucket], {})) add(bucket + 1, sample);
  if (!waiting.empty() && !waiting.back().empty()) complete(buckets.size() - 1);
  return made;
}

}  // namespace varve::data
