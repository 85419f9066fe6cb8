#include "base/philox.h"
#include "varve/data.h"

namespace varve::data {

Random::Random(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index)
    : counter_{0, 0, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32)},
      key_(philox_key(seed, epoch)) {}

std::uint32_t Random::next() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

double Random::uniform() { return next() * 0x1p-32; }

double Random::normal() { return double{normal_from_bits(next())}; }

std::int64_t Random::integer(std::int64_t n) {
  if (n < 1) throw Error("Random::integer: expected a positive number of choices, got " + std::to_string(n) + ".");
  const auto count = static_cast<std::uint64_t>(n);
  if (count >> 32 == 0) {
    // Lemire's way: the upper half of a product, and a new draw where the lower half would favour some results.
    std::uint64_t product = std::uint64_t{next()} * count;
    if (static_cast<std::uint32_t>(product) < count) {
      const std::uint64_t uneven = (std::uint64_t{1} << 32) % count;
      while (static_cast<std::uint32_t>(product) < uneven) product = std::uint64_t{next()} * count;
    }
    return static_cast<std::int64_t>(product >> 32);
  }
  const std::uint64_t limit = UINT64_MAX - UINT64_MAX % count;
  std::uint64_t bits = limit;
  while (bits >= limit) {
    const std::uint64_t upper = next();
    bits = upper << 32 | next();
  }
  return static_cast<std::int64_t>(bits % count);
}

}  // namespace varve::data
