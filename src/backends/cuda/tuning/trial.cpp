#include "backends/cuda/tuning/trial.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cuda/device/context.h"

namespace varve::cuda {
namespace {

constexpr std::size_t kNumbers = std::size_t{1} << 18;

const std::vector<std::uint16_t>& numbers() {
  static const auto& all = *new std::vector<std::uint16_t>([] {
    std::vector<std::uint16_t> made(kNumbers);
    std::uint32_t state = 1;
    for (std::uint16_t& x : made) {
      state = state * 1664525u + 1013904223u;
      x = static_cast<std::uint16_t>((state >> 16 & 0x80ffu) + 0x3e80u);
    }
    return made;
  }());
  return all;
}

}  // namespace

void fill_with_numbers(void* to, std::size_t bytes) {
  auto* begin = static_cast<std::byte*>(to);
  const std::size_t first = std::min(bytes, kNumbers * sizeof(std::uint16_t));
  context().upload(begin, numbers().data(), first, nullptr);
  for (std::size_t done = first; done < bytes; done *= 2)
    context().copy(begin + done, begin, std::min(done, bytes - done));
}

}  // namespace varve::cuda
