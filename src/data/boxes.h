// Boxes of a picture as targets.
#pragma once

#include <array>
#include <cstdint>

#include "varve/data.h"

namespace varve::data {

inline constexpr std::int64_t kBoxNumbers = 5;
inline constexpr float kNoBox = -1;  // as the class of a row

using BoxRow = std::array<float, kBoxNumbers>;  // class, left, top, right, bottom in shares of the picture's sides

// What of a box is inside the picture; false when that is too little to be seen.
bool cut_box(BoxRow& row);

}  // namespace varve::data
