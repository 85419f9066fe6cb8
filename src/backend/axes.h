// Axes of tensors that are walked together: which lies outside which, and which are one.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/kernel.h"

namespace varve::backend {

// One axis of a copy. Distances in bytes.
struct CopyAxis {
  std::int64_t size = 1, from = 0, to = 0;
};
// The target's slow axes first; those that are one axis on both sides joined.
std::vector<CopyAxis> joined_axes(const Port& from, const Port& to);

// The order of `count` axes from the outermost to the innermost, by the strides of all operands: the last ones,
// outputs, decide first, since they are written.
std::vector<std::size_t> outer_first(std::size_t count, const std::vector<const Ints*>& strides);

template <class Values>
void permute(Values& values, const std::vector<std::size_t>& order) {
  const Values old = values;
  values.clear();
  for (const std::size_t i : order) values.push_back(old[i]);
}

}  // namespace varve::backend
