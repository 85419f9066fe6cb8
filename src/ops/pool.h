// The geometry of pooling, shared by its operators.
#pragma once

#include "varve/ops.h"

namespace varve::pool {

inline constexpr std::int64_t kMostSize = std::int64_t{1} << 31;  // of windows, strides and images along one side

// x [N,H,W,C]  y [N,OH,OW,C]. Every window covers at least one element of x.
struct Geometry {
  Ints window, stride, padding;  // padding: top, bottom, left, right
  Shape x, y;
};

// Checks everything a user may get wrong; `op` begins the message.
Geometry geometry(const std::string& op, const Shape& x, const Attrs& attrs);

std::vector<const OpRecord*> ops();
Tensor max(const Tensor& x, const Attrs& attrs);
Tensor average(const Tensor& x, const Attrs& attrs);

}  // namespace varve::pool
