#include "backends/cuda/conv_line.h"

#include "base/text.h"

namespace varve::cuda {

Constants constants_of(const ConvShape& s, const ConvLine& line) {
  return {{"PITCH", cat(line.pitch)}, {"IMAGE", cat(line.image)}, {"ROWS", cat(line.rows)},
          {"TOP", cat(s.pad_top)},    {"LEFT", cat(s.pad_left)},  {"H", cat(s.in_height)},
          {"W", cat(s.in_width)},     {"OH", cat(s.out_height)},  {"OW", cat(s.out_width)}};
}

bool has_line(const ConvShape& s) {
  if (s.groups != 1 || s.stride_height != 1 || s.stride_width != 1 || s.dilation_height != 1 || s.dilation_width != 1)
    return false;
  if (std::max(s.pad_top, s.pad_bottom) >= s.kernel_height || std::max(s.pad_left, s.pad_right) >= s.kernel_width)
    return false;
  constexpr std::int64_t kWidest = 256, kMost = std::int64_t{1} << 30;
  const ConvLine line(s);
  return line.pitch <= kWidest && line.places < kMost;
}

}  // namespace varve::cuda
