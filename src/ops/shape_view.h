// The views among the shape operators, with arguments already checked and normalised.
#pragma once

#include <vector>

#include "varve/ops.h"

namespace varve {

// Positions begin, begin + step, …, `size` of them, on every axis.
struct Window {
  Ints begin, step, size;
};
// A range of an axis as Python takes it: positions past the ends are clipped. Steps may be negative; then kEnd as the
// end means "through position 0".
void add_range(Window& window, const Range& range, std::int64_t length);
// Every element of `shape`.
Window whole_window(const Shape& shape);
Tensor window_of(const Tensor& x, const Window& window);

}  // namespace varve
