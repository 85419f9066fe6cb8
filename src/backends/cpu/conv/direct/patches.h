// Patches of images as rows of a matrix: what makes a convolution a matrix product (im2col).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/conv/conv_shape.h"

namespace varve::cpu::plain {

// One row for each pixel of the grid, [tap][channel of a group]; zeros where a tap falls outside.
class Gather {
 public:
  // The patches of x that make up pixels of y.
  static Gather forward(const ConvShape& s);
  // The pixels of y that each pixel of x had a part in.
  static Gather backward(const ConvShape& s);

  std::int64_t pixels() const { return grid_height * grid_width; }
  std::int64_t columns() const { return kernel_height * kernel_width * group; }
  // Rows [first, first + count) of the image's grid, from channels that begin at `image`.
  void rows(const std::byte* image, std::int64_t first, std::int64_t count, std::int64_t element_bytes,
            std::byte* out) const;

  std::int64_t grid_height, grid_width;         // of the pixels that get a row
  std::int64_t height, width, channels, group;  // of the image read
  std::int64_t kernel_height, kernel_width;

 private:
  struct Axis {
    std::int64_t stride, dilation, before, size;
    bool backward;
    std::int64_t source(std::int64_t pixel, std::int64_t tap) const;  // -1: outside
  };
  Axis vertical_, horizontal_;

  Gather(const ConvShape& s, bool backward);
};

}  // namespace varve::cpu::plain
