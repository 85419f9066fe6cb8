// How close two results must be, and what to say when they are not.
#pragma once

#include <string>
#include <vector>

#include "ops/row.h"

namespace varve::test {

struct Tolerance {
  double relative = 0, absolute = 0;
};
Tolerance tolerance_of(DType dtype);

// How far each element may be off: by an elementwise tolerance, or as a sum of `terms` products of that magnitude.
struct Bound {
  DType dtype = f32;
  double slack = 1;
  double terms = 1;
  int roundings = 0;
  std::vector<double> magnitude = {};  // empty: elementwise tolerance

  double allowed(double want, std::size_t i) const;
};
std::vector<Bound> bounds_of(const Row& row, const DoublesList& in, const Tensors& out);

// Nothing when they agree; else the first difference: index, expected, got, and how many differ.
std::string difference(const Doubles& got, const Doubles& want, const Bound& bound);
std::string difference_in_bits(const Doubles& got, const Doubles& want);

std::string print(const std::vector<Shape>& shapes);

}  // namespace varve::test
