// What the transforms are made of.
#pragma once

#include "varve/data.h"

namespace varve::data {

// A linear map of positions about the middle of the picture, (down, right) to (down, right).
struct Turn {
  double down_down, down_right, right_down, right_right;
};

// The pixel at p becomes what was at `from`·p: bilinear between four pixels, zero beyond the edges.
void resample(Image& image, const Turn& from);

// The same without mixing: each pixel is that of the nearest place.
void resample_nearest(Image& image, const Turn& from);

// out[row][column] = in[row + down][column + right]; zero where that lies outside.
void shift(Image& image, std::int64_t down, std::int64_t right);

}  // namespace varve::data
