#include "data/parts.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "data/random_order.h"

namespace varve::data {

Parts parts_of(std::int64_t count, double test_share, const std::string& source) {
  const auto held = static_cast<std::int64_t>(std::llround(test_share * static_cast<double>(count)));
  Parts parts = {.train = {}, .test = permutation(count, Random(0, 0, kSplitStream))};
  parts.train.assign(parts.test.begin() + held, parts.test.end());
  parts.test.resize(static_cast<std::size_t>(held));
  for (auto* part : {&parts.train, &parts.test}) std::sort(part->begin(), part->end());
  if (parts.train.empty()) throw Error(cat(source, ": no rows are left to train with."));
  return parts;
}

void check_test_share(const char* who, double test_share) {
  if (!(test_share >= 0 && test_share < 1))
    throw Error(cat(who, ": test_share must be from 0 to less than 1, got ", test_share, "."));
}

}  // namespace varve::data
