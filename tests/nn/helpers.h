// Values that a script can make too, and comparison of tensors.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "io/files_for_tests.h"
#include "varve/varve.h"

namespace varve::nn_tests {

// sin(0.7·i + k) in row-major order.
inline Tensor wave(double k, const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.7 * static_cast<double>(i) + k);
  return tensor(values, shape).to(f32);
}

inline void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance = 2e-6) {
  const std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size()) << got.shape();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << "at " << i;
}
inline void expect_near(const Tensor& got, const Tensor& expected, double tolerance = 2e-6) {
  ASSERT_EQ(got.shape(), expected.shape());
  expect_near(got, expected.to_vector<double>(), tolerance);
}

// Gives each variable of the model wave(k, shape), k = 1, 2, … in tree order.
inline void fill_waves(nn::Module& model) {
  double k = 1;
  for (const nn::NamedVariable& named : model.named_variables())
    if (named.parameter) Variable(named.variable).assign(wave(k++, named.variable.shape()));
}

using io::FilesTest;
using io::message_of;

}  // namespace varve::nn_tests
