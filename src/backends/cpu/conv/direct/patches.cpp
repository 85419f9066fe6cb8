#include "backends/cpu/conv/direct/patches.h"

#include <cstring>

namespace varve::cpu::plain {

Gather::Gather(const ConvShape& s, bool backward)
    : grid_height(backward ? s.in_height : s.out_height),
      grid_width(backward ? s.in_width : s.out_width),
      height(backward ? s.out_height : s.in_height),
      width(backward ? s.out_width : s.in_width),
      channels(backward ? s.out_channels : s.in_channels),
      group(backward ? s.out_group() : s.in_group()),
      kernel_height(s.kernel_height),
      kernel_width(s.kernel_width),
      vertical_{s.stride_height, s.dilation_height, s.pad_top, height, backward},
      horizontal_{s.stride_width, s.dilation_width, s.pad_left, width, backward} {}

Gather Gather::forward(const ConvShape& s) { return Gather(s, false); }
Gather Gather::backward(const ConvShape& s) { return Gather(s, true); }

std::int64_t Gather::Axis::source(std::int64_t pixel, std::int64_t tap) const {
  std::int64_t place;
  if (backward) {
    const std::int64_t step = pixel + before - tap * dilation;
    if (step < 0 || step % stride != 0) return -1;
    place = step / stride;
  } else {
    place = pixel * stride - before + tap * dilation;
  }
  return place >= 0 && place < size ? place : -1;
}

void Gather::rows(const std::byte* image, std::int64_t first, std::int64_t count, std::int64_t element_bytes,
                  std::byte* out) const {
  const auto bytes = static_cast<std::size_t>(group * element_bytes);
  const std::int64_t pixel_bytes = channels * element_bytes;
  for (std::int64_t pixel = first; pixel < first + count; ++pixel) {
    const std::int64_t row = pixel / grid_width, column = pixel % grid_width;
    for (std::int64_t i = 0; i < kernel_height; ++i) {
      const std::int64_t from_row = vertical_.source(row, i);
      for (std::int64_t j = 0; j < kernel_width; ++j, out += bytes) {
        const std::int64_t from_column = from_row < 0 ? -1 : horizontal_.source(column, j);
        if (from_column < 0)
          std::memset(out, 0, bytes);
        else
          std::memcpy(out, image + (from_row * width + from_column) * pixel_bytes, bytes);
      }
    }
  }
}

}  // namespace varve::cpu::plain
