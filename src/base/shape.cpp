#include "varve/shape.h"

#include <algorithm>
#include <ostream>

#include "base/text.h"
#include "varve/error.h"

namespace varve {

std::int64_t Shape::numel() const {
  constexpr std::int64_t limit = std::int64_t{1} << 62;
  // A zero anywhere makes the tensor empty, however large the other sizes.
  bool empty = false;
  for (const std::int64_t size : sizes_) {
    if (size < 0) throw Error(cat("shape ", str(), " has a negative size: sizes must be 0 or more."));
    empty = empty || size == 0;
  }
  if (empty) return 0;
  std::int64_t count = 1;
  for (const std::int64_t size : sizes_) {
    if (__builtin_mul_overflow(count, size, &count) || count > limit) {
      throw Error(cat("shape ", str(), " has more than 2^62 elements: is one of its sizes wrong?"));
    }
  }
  return count;
}

std::string Shape::str() const {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(sizes_[i]);
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.str(); }

Shape broadcast(const Shape& a, const Shape& b, const char* op) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(rank));
  for (int axis = 0; axis < rank; ++axis) {
    // Aligned at the last axis; a missing outer axis counts as 1.
    const int in_a = axis - (rank - a.rank()), in_b = axis - (rank - b.rank());
    const std::int64_t size_a = in_a < 0 ? 1 : a[in_a], size_b = in_b < 0 ? 1 : b[in_b];
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      throw Error(cat(op, ": shapes ", a, " and ", b, " do not broadcast: axis sizes ", size_a, " and ", size_b,
                      " differ (sizes must be equal, or one of them 1)."));
    }
    sizes[static_cast<std::size_t>(axis)] = size_a == 1 ? size_b : size_a;
  }
  return Shape(std::move(sizes));
}

int normalize_axis(std::int64_t axis, int rank, const char* op) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  if (rank == 0) throw Error(cat(op, ": axis ", axis, " of a scalar: a tensor of rank 0 has no axes."));
  throw Error(
      cat(op, ": axis ", axis, " is out of range for rank ", rank, ": expected ", -rank, " to ", rank - 1, "."));
}

}  // namespace varve
