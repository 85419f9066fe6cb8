// The windows of a pooling.
#pragma once

#include <algorithm>
#include <cstdint>

#include "varve/op.h"

namespace varve::cpu {

struct Range {
  std::int64_t begin, end;
};

// x [N,H,W,C]  y [N,OH,OW,C]
struct Pool {
  std::int64_t images, height, width, channels;  // of x
  std::int64_t out_height, out_width;
  std::int64_t window[2], stride[2], before[2];
  bool count_padding = false;

  Pool(const Attrs& attrs, const Shape& x, const Shape& y)
      : images(x[0]), height(x[1]), width(x[2]), channels(x[3]), out_height(y[1]), out_width(y[2]) {
    for (std::size_t i = 0; i < 2; ++i) {
      window[i] = attrs.ints("window")[i];
      stride[i] = attrs.ints("stride")[i];
      before[i] = attrs.ints("padding")[2 * i];
    }
    if (attrs.has("count_padding")) count_padding = attrs.flag("count_padding");
  }

  std::int64_t out_rows() const { return images * out_height; }
  bool overlaps() const { return stride[0] < window[0] || stride[1] < window[1]; }
};

// The rows (side 0) or columns (side 1) of x under window i.
inline Range covered(const Pool& p, int side, std::int64_t i) {
  const std::int64_t begin = i * p.stride[side] - p.before[side];
  return {std::max<std::int64_t>(begin, 0), std::min(begin + p.window[side], side == 0 ? p.height : p.width)};
}

}  // namespace varve::cpu
