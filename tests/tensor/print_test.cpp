// Tensors print as NumPy 2 prints arrays: every expected text below is what it wrote.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "varve/ops.h"

namespace varve {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
std::vector<T> counted(std::int64_t n, T step = 1) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>(i) * step);
  return values;
}

TEST(Print, Columns) {
  EXPECT_EQ(tensor({{1.f, 2.5f}, {-3.f, 4.f}}).str(), "[[ 1.   2.5]\n [-3.   4. ]]");
  EXPECT_EQ(tensor<std::int64_t>({{1, -20}, {300, 4}}).str(), "[[  1 -20]\n [300   4]]");
  EXPECT_EQ(tensor({true, false}).str(), "[ True False]");
  EXPECT_EQ(tensor({-0.f, 0.f}).str(), "[-0.  0.]");
  std::ostringstream out;
  out << tensor({1.f, 2.f});
  EXPECT_EQ(out.str(), "[1. 2.]");
}

TEST(Print, ShortestDigits) {
  EXPECT_EQ(tensor({1 / 3.f, 2 / 3.f, 1.f}).str(), "[0.33333334 0.6666667  1.        ]");
  EXPECT_EQ(tensor({1 / 3., 2 / 3., 1.}).str(), "[0.33333333 0.66666667 1.        ]");
  EXPECT_EQ(tensor(std::vector<half>{half(0.1f), half(1000.f), half(2.5f)}).str(), "[1.0e-01 1.0e+03 2.5e+00]");
  EXPECT_EQ(tensor(std::vector<bfloat16>{bfloat16(0.1f), bfloat16(1.f)}).str(), "[0.1 1. ]");
}

TEST(Print, Exponents) {
  EXPECT_EQ(tensor({1e-5f, 1.f, 1000.f}).str(), "[1.e-05 1.e+00 1.e+03]");
  EXPECT_EQ(tensor({1e-100, 1.}).str(), "[1.e-100 1.e+000]");
  EXPECT_EQ(tensor({123456789.f, 1.f}).str(), "[1.2345679e+08 1.0000000e+00]");
  EXPECT_EQ(tensor({999999.f}).str(), "[999999.]");
  EXPECT_EQ(tensor({1e6f}).str(), "[1.e+06]");
  EXPECT_EQ(tensor({1e10f, kNan, -1.f}).str(), "[ 1.e+10     nan -1.e+00]");
}

TEST(Print, NotFinite) {
  EXPECT_EQ(tensor({1.5f, kNan, -kInf, 0.25f}).str(), "[1.5   nan -inf 0.25]");
  EXPECT_EQ(tensor({kNan, kInf}).str(), "[nan inf]");
}

TEST(Print, Scalars) {
  EXPECT_EQ(tensor(1.f).str(), "1.0");
  EXPECT_EQ(tensor(0.1f).str(), "0.1");
  EXPECT_EQ(tensor(1e-5f).str(), "1e-05");
  EXPECT_EQ(tensor(1.5e20).str(), "1.5e+20");
  EXPECT_EQ(tensor(1e10f).str(), "1e+10");
  EXPECT_EQ(tensor(123456.f).str(), "123456.0");
  EXPECT_EQ(tensor(1e15).str(), "1000000000000000.0");
  EXPECT_EQ(tensor(std::vector<half>{half(2048.f)}, {}).str(), "2.048e+03");
  EXPECT_EQ(tensor(7).str(), "7");
  EXPECT_EQ(tensor(true).str(), "True");
  EXPECT_EQ(tensor(kNan).str(), "nan");
  EXPECT_EQ(tensor(-kInf).str(), "-inf");
  EXPECT_EQ(tensor(std::vector<half>{half(0.1f)}, {}).str(), "0.1");
}

TEST(Print, Lines) {
  EXPECT_EQ(tensor(counted<std::int64_t>(30, 1000)).str(),
            "[    0  1000  2000  3000  4000  5000  6000  7000  8000  9000 10000 11000\n"
            " 12000 13000 14000 15000 16000 17000 18000 19000 20000 21000 22000 23000\n"
            " 24000 25000 26000 27000 28000 29000]");
  EXPECT_EQ(tensor(counted<std::int64_t>(12), {2, 3, 2}).str(),
            "[[[ 0  1]\n  [ 2  3]\n  [ 4  5]]\n\n [[ 6  7]\n  [ 8  9]\n  [10 11]]]");
  EXPECT_EQ(tensor(counted<std::int64_t>(8), {2, 2, 2, 1}).str(),
            "[[[[0]\n   [1]]\n\n  [[2]\n   [3]]]\n\n\n [[[4]\n   [5]]\n\n  [[6]\n   [7]]]]");
}

TEST(Print, Abridged) {
  EXPECT_EQ(tensor(counted<std::int64_t>(1001)).str(), "[   0    1    2 ...  998  999 1000]");
  EXPECT_EQ(tensor(counted<float>(2000), {40, 50}).str(),
            "[[0.000e+00 1.000e+00 2.000e+00 ... 4.700e+01 4.800e+01 4.900e+01]\n"
            " [5.000e+01 5.100e+01 5.200e+01 ... 9.700e+01 9.800e+01 9.900e+01]\n"
            " [1.000e+02 1.010e+02 1.020e+02 ... 1.470e+02 1.480e+02 1.490e+02]\n"
            " ...\n"
            " [1.850e+03 1.851e+03 1.852e+03 ... 1.897e+03 1.898e+03 1.899e+03]\n"
            " [1.900e+03 1.901e+03 1.902e+03 ... 1.947e+03 1.948e+03 1.949e+03]\n"
            " [1.950e+03 1.951e+03 1.952e+03 ... 1.997e+03 1.998e+03 1.999e+03]]");
  EXPECT_EQ(tensor(counted<std::int64_t>(1200), {2, 2, 300}).str(),
            "[[[   0    1    2 ...  297  298  299]\n  [ 300  301  302 ...  597  598  599]]\n\n"
            " [[ 600  601  602 ...  897  898  899]\n  [ 900  901  902 ... 1197 1198 1199]]]");
  EXPECT_EQ(tensor(std::vector<bool>(1000)).str().find("..."), std::string::npos);
}

TEST(Print, NothingToShow) {
  EXPECT_EQ(tensor(std::vector<float>{}, {0, 3}).str(), "[]");
  EXPECT_EQ(Tensor().str(), "undefined");
}

}  // namespace
}  // namespace varve
