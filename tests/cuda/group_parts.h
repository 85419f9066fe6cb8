// Groups made by hand, without a graph.
#pragma once

#include <vector>

#include "backends/cuda/groups/groups.h"

namespace varve::cuda {

inline backend::Port port(DType dtype, const Shape& shape) { return {{dtype, shape}, contiguous(shape), nullptr}; }

inline Expr x(int i) { return Expr::input(i); }

// `reduce`: empty, or one for each output, over `axes`.
inline GroupPart part(const Shape& space, std::vector<backend::Port> in, std::vector<backend::Port> out,
                      const std::vector<Expr>& formulas, std::vector<backend::Reduce> reduce = {},
                      const std::vector<int>& axes = {}) {
  GroupPart result;
  result.group.shape = space;
  result.group.code = expr::flatten(static_cast<int>(in.size()), formulas);
  result.group.reduce = std::move(reduce);
  result.group.reduce.resize(out.size(), backend::Reduce::none);
  result.group.reduced_axes.assign(static_cast<std::size_t>(space.rank()), false);
  for (const int axis : axes) result.group.reduced_axes[static_cast<std::size_t>(axis)] = true;
  result.in = std::move(in);
  result.out = std::move(out);
  return result;
}

}  // namespace varve::cuda
