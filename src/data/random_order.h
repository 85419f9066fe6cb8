// The random choices that belong to no sample: each draws from a stream beyond all sample indices.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "varve/data.h"

namespace varve::data {

inline constexpr std::uint64_t kOrderStream = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kSplitStream = kOrderStream + 1;
inline constexpr std::uint64_t kAmongStream = kOrderStream + 2;
inline constexpr std::uint64_t kBufferStream = kOrderStream + 3;
inline constexpr std::uint64_t kMixupStream = kOrderStream + (std::uint64_t{1} << 62);  // plus the batch's index

// 0 … count - 1 in an order of its own for each state of `random` (Fisher and Yates).
inline std::vector<std::int64_t> permutation(std::int64_t count, Random random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.integer(static_cast<std::int64_t>(i)))]);
  return order;
}

}  // namespace varve::data
