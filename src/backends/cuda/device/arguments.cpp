#include "backends/cuda/device/arguments.h"

#include <algorithm>
#include <bit>

namespace varve::cuda {
namespace {

// The driver copies as much as the kernel declares: a few sizes will do.
template <std::size_t kWords>
void start_with(const std::vector<std::uint64_t>& words, const Function& function, const Launch& launch) {
  struct Argument {
    std::uint64_t words[kWords];
  } argument;
  std::copy(words.begin(), words.end(), argument.words);
  function(launch, argument);
}

}  // namespace

// x / size is (⌊x · multiplier / 2^32⌋ + x) >> shift, for x below 2^31.
void Words::add_extent(std::int64_t extent, bool wide) {
  const auto size = static_cast<std::uint64_t>(extent);
  if (wide) {
    add(size);
    add(std::uint64_t{0});
    return;
  }
  const auto shift = static_cast<unsigned>(std::bit_width(size - 1));
  const std::uint64_t multiplier = (((std::uint64_t{1} << shift) - size) << 32) / size + 1;
  add_halves(size, multiplier);
  add(std::uint64_t{shift});
}

void Words::start(const Function& function, const Launch& launch) const {
  if (words_.size() <= 60) return start_with<60>(words_, function, launch);
  if (words_.size() <= 500) return start_with<500>(words_, function, launch);
  start_with<kMostWords>(words_, function, launch);
}

}  // namespace varve::cuda
