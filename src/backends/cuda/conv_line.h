// All rows of all images as one line of places, with padding that neighbours share: kernels/conv_tiles.cu.
#pragma once

#include <algorithm>

#include "backends/cuda/conv_shape.h"
#include "backends/cuda/function.h"

namespace varve::cuda {

struct ConvLine {
  std::int64_t pitch, image, places;  // places of a row, rows of an image, places of everything
  std::int64_t rows;                  // that come at a time, a strip: one, or all of a small image
  explicit ConvLine(const ConvShape& s)
      : pitch(s.in_width + std::max(s.pad_left, s.pad_right)),
        image(s.in_height + std::max(s.pad_top, s.pad_bottom)),
        places(s.batch * image * pitch),
        rows(image * pitch <= kSmall ? image : 1) {}
  std::int64_t strip() const { return pitch * rows; }  // places

 private:
  static constexpr std::int64_t kSmall = 100;  // places: the copy engine takes its time for each strip
};

// What kernel texts call it: PITCH, IMAGE, ROWS, TOP, LEFT, H, W, OH, OW.
Constants constants_of(const ConvShape& shape, const ConvLine& line);

// Stride 1, no groups, padding within the kernel's reach, and sizes that tiles of the copy engine can have.
bool has_line(const ConvShape& shape);

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace varve::cuda
