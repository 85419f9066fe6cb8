// The sizes of a contiguous matrix, row by row.
#pragma once

#include <cstdint>

namespace varve::cpu {

struct Matrix {
  std::int64_t rows = 0, columns = 0;
};

}  // namespace varve::cpu
