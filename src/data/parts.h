// Which samples test and which train, where nobody has parted them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "varve/data.h"

namespace varve::data {

struct Parts {
  std::vector<std::int64_t> train, test;  // each in the order of the file
};
// A share of `count` samples, the same in every run. Error that begins with `source` when none is left to train with.
Parts parts_of(std::int64_t count, double test_share, const std::string& source);
void check_test_share(const char* who, double test_share);

}  // namespace varve::data
