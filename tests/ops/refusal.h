// Calls that must be refused, and the tensors they are refused on.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ops/row.h"

namespace varve::test {

inline constexpr std::int64_t kHuge = std::int64_t{1} << 40;
inline constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

struct Refusal {
  const char* what;
  std::function<void()> call;
};

void expect_refused(const std::vector<Refusal>& refusals);  // each throws Error, and nothing else

std::string message(const std::function<void()>& call);  // of the Error it throws; empty when there is none

inline Tensor matrix() { return zeros({3, 4}); }
inline Tensor image() { return zeros({2, 8, 8, 4}); }
inline Tensor whole(const Shape& shape) { return full_int(shape, 0); }

}  // namespace varve::test
