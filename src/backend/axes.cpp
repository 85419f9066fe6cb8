#include "backend/axes.h"

#include <algorithm>
#include <cstdlib>

namespace varve::backend {
namespace {

bool lies_outside(std::size_t a, std::size_t b, const std::vector<const Ints*>& strides) {
  for (auto operand = strides.rbegin(); operand != strides.rend(); ++operand) {
    const std::int64_t sa = std::abs((**operand)[a]), sb = std::abs((**operand)[b]);
    if (sa != 0 && sb != 0 && sa != sb) return sa > sb;
  }
  return a < b;
}

}  // namespace

std::vector<CopyAxis> joined_axes(const Port& from, const Port& to) {
  const auto bytes = static_cast<std::int64_t>(size_of(to.type.dtype));
  std::vector<CopyAxis> axes;
  for (int a = 0; a < to.type.shape.rank(); ++a) {
    const auto i = static_cast<std::size_t>(a);
    if (to.type.shape[a] != 1)
      axes.push_back({to.type.shape[a], from.layout.strides[i] * bytes, to.layout.strides[i] * bytes});
  }
  std::stable_sort(axes.begin(), axes.end(), [](const CopyAxis& a, const CopyAxis& b) { return a.to > b.to; });
  std::vector<CopyAxis> joined;
  for (const CopyAxis& axis : axes) {
    const bool one =
        !joined.empty() && joined.back().from == axis.size * axis.from && joined.back().to == axis.size * axis.to;
    if (one)
      joined.back() = {joined.back().size * axis.size, axis.from, axis.to};
    else
      joined.push_back(axis);
  }
  return joined;
}

std::vector<std::size_t> outer_first(std::size_t count, const std::vector<const Ints*>& strides) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) {  // insertion: the comparison is not transitive
    std::size_t place = order.size();
    while (place > 0 && !lies_outside(order[place - 1], i, strides)) --place;
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), i);
  }
  return order;
}

}  // namespace varve::backend
