// a[{…}], +=, axes of reductions, and what draws without repeating itself.
#include <gtest/gtest.h>

#include <map>

#include "text_checks.h"
#include "varve/compile.h"
#include "varve/ops.h"

namespace varve {
namespace {

using test::contains;
using Whole = std::vector<std::int64_t>;

std::string what_is_wrong(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Tensor counted(const Shape& shape) { return reshape(arange(shape.numel()), shape); }

// Each expectation is NumPy's answer for x = numpy.arange(24).reshape(2, 3, 4).
TEST(IndexOf, PositionsRangesAndAxes) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(x[1].shape(), (Shape{3, 4}));
  EXPECT_EQ(x[-1].to_vector<std::int64_t>().front(), 12);
  EXPECT_EQ((x[{1, 2, 3}]).item<std::int64_t>(), 23);
  EXPECT_EQ((x[{0, {1, 3}, -1}]).to_vector<std::int64_t>(), (Whole{7, 11}));
  EXPECT_EQ((x[{ellipsis, 0}]).to_vector<std::int64_t>(), (Whole{0, 4, 8, 12, 16, 20}));
  EXPECT_EQ((x[{0, 0, {0, kEnd, 2}}]).to_vector<std::int64_t>(), (Whole{0, 2}));
  EXPECT_EQ((x[{new_axis, 1, ellipsis, new_axis}]).shape(), (Shape{1, 3, 4, 1}));
  EXPECT_EQ((x[Range{1, 2}]).shape(), (Shape{1, 3, 4}));
}

TEST(IndexOf, TensorsOfPositions) {
  const Tensor x = counted({2, 3, 4});
  const Tensor rows = tensor<std::int64_t>({1, 0, -1}), columns = tensor<std::int32_t>({2, -1, 0});
  EXPECT_EQ((x[rows]).shape(), (Shape{3, 3, 4}));
  EXPECT_EQ((x[{0, columns, 1}]).to_vector<std::int64_t>(), (Whole{9, 9, 1}));
  EXPECT_EQ((x[{rows, columns, 0}]).to_vector<std::int64_t>(), (Whole{20, 8, 12}));
  EXPECT_EQ((x[{Range{}, columns, rows}]).to_vector<std::int64_t>(), (Whole{9, 8, 3, 21, 20, 15}));
  // Others between them: their axes come first.
  EXPECT_EQ((x[{rows, Range{}, columns}]).shape(), (Shape{3, 3}));
  EXPECT_EQ((x[{rows, Range{}, columns}]).to_vector<std::int64_t>(), (Whole{14, 18, 22, 3, 7, 11, 12, 16, 20}));
  EXPECT_EQ((x[{reshape(rows, {3, 1}), reshape(columns, {1, 3})}]).shape(), (Shape{3, 3, 4}));
}

TEST(IndexOf, WhatCannotBeIsRefused) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(what_is_wrong([&] { x[2]; }), "index 2 is out of range for axis 0 of size 2.");
  EXPECT_TRUE(contains(what_is_wrong([&] { x[{0, 0, 0}]; }), "has 2 axes, got 3 indices"));
  EXPECT_TRUE(contains(what_is_wrong([&] { x[{ellipsis, ellipsis}]; }), "one ellipsis"));
  EXPECT_TRUE(contains(what_is_wrong([&] { x[x > 1]; }), "depends on values"));
  EXPECT_TRUE(contains(what_is_wrong([&] { x[ones({2})]; }), "must be integers"));
  EXPECT_TRUE(contains(what_is_wrong([&] { (x[tensor<std::int64_t>({0, 5})]).eval(); }), "out of range"));
  const Tensor two = tensor<std::int64_t>({0, 1}), bad = tensor<std::int64_t>({0, 3});
  EXPECT_TRUE(contains(what_is_wrong([&] { (x[{two, bad}]).eval(); }), "out of range"));
}

TEST(Operators, AssignAndAddInOne) {
  Tensor a = tensor({1.f, 2.f});
  const Tensor before = a;
  a += 1;
  a *= a;
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{4, 9}));
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 2}));
  Variable v("v", tensor({1.f, 2.f}));
  auto step = compile([&](const Tensor& x) { v -= x; });
  step(ones({2}));
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{0, 1}));
}

TEST(Operators, AxesOfReductions) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(sum(x, {.axes = 1}).shape(), (Shape{2, 4}));
  EXPECT_EQ(sum(x, {.axes = {0, -1}}).shape(), (Shape{3}));
  EXPECT_EQ(sum(x, {.axes = {1}, .keep = true}).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(sum(x, {.axes = {}}).shape(), Shape{});  // none given: all
  EXPECT_EQ(sum(x, {.axes = Axes{}}).shape(), x.shape());
}

TEST(Draws, IntegersFillTheirRange) {
  const Tensor drawn = integers({3000}, -2, 3, {.seed = 4});
  EXPECT_EQ(drawn.dtype(), i64);
  std::map<std::int64_t, int> counts;
  for (const std::int64_t x : drawn.to_vector<std::int64_t>()) ++counts[x];
  EXPECT_EQ(counts.size(), 5u);
  EXPECT_EQ(counts.begin()->first, -2);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 600, 120) << value;
  EXPECT_TRUE(contains(what_is_wrong([] { integers({1}, 3, 3); }), "expected low < high"));
}

TEST(Draws, ClassesFollowTheirProbabilities) {
  const Tensor logits = broadcast_to(log(tensor({0.1f, 0.6f, 0.3f})), {4000, 3});
  std::vector<int> counts(3);
  for (const std::int64_t c : categorical(logits, {.seed = 2}).to_vector<std::int64_t>())
    ++counts[static_cast<std::size_t>(c)];
  EXPECT_NEAR(counts[0], 400, 100);
  EXPECT_NEAR(counts[1], 2400, 150);
  EXPECT_TRUE(contains(what_is_wrong([] { categorical(arange(3)); }), "floating-point logits"));
}

TEST(Draws, AGeneratorDoesNotRepeatUnlessAsked) {
  Generator one(7), other(7), third(8);
  const auto first = one.uniform({4}).to_vector<float>(), second = one.uniform({4}).to_vector<float>();
  EXPECT_NE(first, second);
  EXPECT_EQ(other.uniform({4}).to_vector<float>(), first);
  EXPECT_NE(third.uniform({4}).to_vector<float>(), first);
  auto step = compile([&] { return one.normal({4}) + one.normal({4}); });
  EXPECT_NE(step().to_vector<float>(), step().to_vector<float>());
  EXPECT_EQ(one.drawn().value().item<std::int64_t>(), 6);
  one.reset();
  EXPECT_EQ(one.uniform({4}).to_vector<float>(), first);
}

}  // namespace
}  // namespace varve
