// Batches of samples of similar lengths, padded to one of a few.
#pragma once

#include <cstdint>
#include <vector>

namespace varve::data {

// At most `count` lengths, rising, the last the longest there is: those that pad the fewest steps when each sample is
// padded to the next of them.
std::vector<std::int64_t> bucket_lengths(std::vector<std::int64_t> lengths, std::int64_t count);

struct Bucketed {
  std::vector<std::int64_t> order;  // of samples: each next `batch` of them are one batch
  std::vector<std::int64_t> steps;  // of each batch: what it is padded to
};
// Samples in about the order given. A batch is complete when as many samples of its bucket have come; what is left in
// the end fills up from the shortest to the longest, so that one batch at most is not full, the last.
Bucketed in_buckets(const std::vector<std::int64_t>& order, const std::vector<std::int64_t>& lengths,
                    const std::vector<std::int64_t>& buckets, std::int64_t batch);

}  // namespace varve::data
