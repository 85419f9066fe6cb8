#include "ops/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "ops/values.h"

namespace varve::test {

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {1e-7, 1e-7};
    case DType::f32:
      return {1.3e-6, 1e-5};
    case DType::bf16:
      return {1.6e-2, 1e-5};
    case DType::f16:
      return {1e-3, 1e-5};
    default:
      return {0, 0};
  }
}

namespace {
// Half a unit in the last place, and the ε of the sums behind it: 16-bit types are summed in f32.
double rounding(DType dtype) {
  if (dtype == bf16) return 0x1p-8;
  if (dtype == f16) return 0x1p-11;
  return dtype == f64 ? 0x1p-53 : 0x1p-24;
}
double epsilon(DType dtype) { return dtype == f64 ? 0x1p-52 : 0x1p-23; }
}  // namespace

double Bound::allowed(double want, std::size_t i) const {
  if (!is_floating(dtype)) return 0;
  if (magnitude.empty()) {
    const Tolerance tolerance = tolerance_of(dtype);
    return slack * (tolerance.absolute + tolerance.relative * std::abs(want));
  }
  constexpr double kSums = 4;
  const double smallest = dtype == f16 ? 0x1p-24 : 0x1p-126;  // subnormal numbers are rounded absolutely
  const double sums = slack * kSums * epsilon(dtype) * std::sqrt(terms) * magnitude[i];
  return sums + rounding(dtype) * (roundings * magnitude[i] + 2 * std::abs(want)) + smallest;
}

std::vector<Bound> bounds_of(const Row& row, const DoublesList& in, const Tensors& out) {
  std::vector<Shape> shapes;
  DoublesList sizes = in;
  for (Doubles& input : sizes) {
    shapes.push_back(input.shape);
    for (double& v : input.data) v = std::abs(v);
  }
  const double terms = row.terms(shapes);
  DoublesList magnitude;
  if (row.magnitude)
    magnitude = row.magnitude(in);
  else if (terms > 1 && row.oracle)
    magnitude = row.oracle(sizes);
  std::vector<Bound> bounds;
  for (std::size_t i = 0; i < out.size(); ++i) {
    bounds.push_back(
        {.dtype = out[i].dtype(), .slack = row.slack, .terms = std::max(terms, 1.0), .roundings = row.roundings});
    if (i < magnitude.size()) bounds.back().magnitude = magnitude[i].data;
  }
  return bounds;
}

namespace {

bool close(double got, double want, double allowed) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= allowed;
}

// Where integers leave their type the result is not specified.
bool representable(double want, DType dtype) {
  if (dtype == boolean || is_floating(dtype)) return true;
  return std::isfinite(want) && (dtype == u8 ? want >= 0 && want <= 255 : quantize(want, dtype) == std::round(want));
}

std::string index_text(const Shape& shape, std::size_t flat) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  auto rest = static_cast<std::int64_t>(flat);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = rest % shape[axis];
    rest /= shape[axis];
  }
  return Shape(index).str();
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

template <class Same>
std::string first_difference(const Doubles& got, const Doubles& want, Same same) {
  if (!(got.shape == want.shape)) return "shape " + got.shape.str() + ", expected " + want.shape.str();
  std::size_t differing = 0, first = 0;
  for (std::size_t i = 0; i < want.data.size(); ++i)
    if (!same(i) && differing++ == 0) first = i;
  if (differing == 0) return "";
  return "at " + index_text(want.shape, first) + ": expected " + number(want.data[first]) + ", got " +
         number(got.data[first]) + " (" + std::to_string(differing) + " of " + std::to_string(want.data.size()) +
         " differ)";
}

}  // namespace

std::string difference(const Doubles& got, const Doubles& want, const Bound& bound) {
  return first_difference(got, want, [&](std::size_t i) {
    if (!representable(want.data[i], bound.dtype)) return true;
    if (close(got.data[i], want.data[i], bound.allowed(want.data[i], i))) return true;
    return close(got.data[i], round_to(want.data[i], bound.dtype), 0);  // infinite in a narrower type
  });
}

std::string difference_in_bits(const Doubles& got, const Doubles& want) {
  return first_difference(got, want, [&](std::size_t i) {
    return std::memcmp(&got.data[i], &want.data[i], sizeof(double)) == 0 ||
           (std::isnan(got.data[i]) && std::isnan(want.data[i]));
  });
}

std::string print(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) text += (text.empty() ? "" : ", ") + shape.str();
  return text;
}

}  // namespace varve::test
