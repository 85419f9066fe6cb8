// Choosing by value, and calls around searching and resizing that must be refused.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/refusal.h"
#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/indexing.h"
#include "varve/vision.h"

namespace varve::test {
namespace {

using Wholes = std::vector<std::int64_t>;

TEST(Select, UniqueIsSortedWithInverseAndCounts) {
  const Tensor x = tensor({{3.0, 1.0, kNaN}, {1.0, kNaN, -2.0}});
  const Unique u = unique(x);
  const std::vector<double> values = u.values.to_vector<double>();
  ASSERT_EQ(values.size(), 4u);
  EXPECT_EQ(std::vector<double>(values.begin(), values.begin() + 3), (std::vector<double>{-2, 1, 3}));
  EXPECT_TRUE(std::isnan(values[3]));
  EXPECT_EQ(u.inverse.shape(), x.shape());
  EXPECT_EQ(u.inverse.to_vector<std::int64_t>(), (Wholes{2, 1, 3, 1, 3, 0}));
  EXPECT_EQ(u.counts.to_vector<std::int64_t>(), (Wholes{1, 2, 1, 2}));
  EXPECT_EQ(unique(zeros({0}, i32)).values.type(), (TensorType{i32, {0}}));
  EXPECT_EQ(unique(tensor(Wholes{kLargest, kLargest - 1})).values.to_vector<std::int64_t>(),
            (Wholes{kLargest - 1, kLargest}));
}

TEST(Select, NonzeroGivesRowsOfIndices) {
  const Tensor places = nonzero(tensor({{0, 5, 0}, {7, 0, -1}}));
  EXPECT_EQ(places.shape(), (Shape{3, 2}));
  EXPECT_EQ(places.to_vector<std::int64_t>(), (Wholes{0, 1, 1, 0, 1, 2}));
  EXPECT_EQ(nonzero(zeros({2, 3})).shape(), (Shape{0, 2}));
  EXPECT_EQ(nonzero(ones({})).shape(), (Shape{1, 0}));
}

TEST(Select, AMaskChoosesElementsOrRowsAndPassesGradients) {
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  EXPECT_EQ(masked_select(x, x > 2.5f).to_vector<float>(), (std::vector<float>{3, 4, 5, 6}));
  const Tensor rows = masked_select(x, tensor({1, 0, 1}).to(boolean));
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{1, 2, 5, 6}));
  const Tensor slope = grad([](const Tensor& t) { return sum(masked_select(t * t, t > 2.5f)); })(x);
  EXPECT_EQ(slope.to_vector<float>(), (std::vector<float>{0, 0, 6, 8, 10, 12}));
}

TEST(Select, CountsWithoutBinsReadTheLargest) {
  EXPECT_EQ(bincount(tensor(Wholes{1, 4, 1})).to_vector<std::int64_t>(), (Wholes{0, 2, 0, 0, 1}));
  EXPECT_EQ(bincount(tensor(Wholes{})).numel(), 0);
}

TEST(Select, TracedFunctionsAreToldWhy) {
  const auto refused = [](const std::function<Tensor(const Tensor&)>& f) {
    return message([&] { compile([&](Tensor x) { return f(x); })(ones({3})).eval(); });
  };
  for (const std::string& text :
       {refused([](const Tensor& x) { return unique(x).values; }), refused([](const Tensor& x) { return nonzero(x); }),
        refused([](const Tensor& x) { return masked_select(x, x > 0); })})
    EXPECT_NE(text.find("how many elements come out depends on values"), std::string::npos) << text;
  EXPECT_NE(refused([](const Tensor& x) { return bincount(x.to(i64)); }).find("bins must be given"), std::string::npos);
}

TEST(Select, AssignedRowsAreWrittenInPlace) {
  Variable table("table", zeros({50, 4}));
  auto program = compile([&](Tensor rows, Tensor updates) {
    table.assign(scatter(table, rows, updates));
    return sum(updates);
  });
  for (int i = 0; i < 3; ++i) program(tensor(Wholes{7, 3, 7}), full({3, 4}, i)).eval();
  EXPECT_EQ(sum(table).item<float>(), 16);
  const std::string text = program.text(tensor(Wholes{7, 3, 7}), full({3, 4}, 1));
  EXPECT_EQ(text.find("copied back"), std::string::npos) << text;
}

TEST(Refusals, Vision) {
  const Tensor volume = zeros({1, 4, 4, 4, 2});
  expect_refused({
      {"a size for each of too many axes",
       [] {
         resize(image(), {4, 4, 4});
       }},
      {"no size",
       [] {
         resize(image(), {0, 4});
       }},
      {"a size beyond memory",
       [] {
         resize(image(), {kHuge, 4});
       }},
      {"antialias of single elements",
       [] {
         resize(image(), {4, 4}, {.mode = Interpolation::nearest, .antialias = true});
       }},
      {"integers between elements",
       [] {
         resize(whole({1, 4, 4, 1}), {2, 2});
       }},
      {"a scale of none",
       [] {
         resize(image(), {4, 4}, {.scales = {0, 1}});
       }},
      {"a matrix as a picture", [] { resize(matrix(), {4}); }},
      {"a grid of another batch",
       [] {
         grid_sample(image(), zeros({1, 2, 2, 2}));
       }},
      {"a grid of three coordinates",
       [] {
         grid_sample(image(), zeros({2, 2, 2, 3}));
       }},
      {"a picture as a volume",
       [] {
         conv3d(image(), zeros({4, 1, 1, 1, 4}));
       }},
      {"weights of other channels",
       [&] {
         conv3d(volume, zeros({4, 1, 1, 1, 3}));
       }},
      {"a kernel deeper than the volume",
       [&] {
         conv3d(volume, zeros({4, 5, 1, 1, 2}));
       }},
      {"a stride of none",
       [&] {
         conv3d(volume, zeros({4, 1, 1, 1, 2}), {.stride = {0, 1, 1}});
       }},
      {"two strides",
       [&] {
         conv3d(volume, zeros({4, 1, 1, 1, 2}), {.stride = {1, 1}});
       }},
      {"padding that overflows",
       [&] {
         conv3d(volume, zeros({4, 1, 1, 1, 2}), {.padding = {kLargest, 0, 0}});
       }},
      {"a window past the volume",
       [&] {
         max_pool3d(volume, {.window = {5, 1, 1}});
       }},
      {"a window of padding alone",
       [&] {
         avg_pool3d(volume, {.window = {2, 2, 2}, .padding = {2, 0, 0}});
       }},
      {"adaptive pooling to nothing", [&] { adaptive_avg_pool3d(volume, 0, 1, 1); }},
  });
}

TEST(Refusals, SearchingAndPairs) {
  expect_refused({
      {"rows of another batch",
       [] {
         searchsorted(zeros({2, 4}), zeros({3, 4}));
       }},
      {"a scalar to search in", [] { searchsorted(zeros({}), zeros({3})); }},
      {"fractions to count", [] { bincount(zeros({3})); }},
      {"counts below zero", [] { bincount(full_int({3}, -2)); }},
      {"a value past the bins", [] { bincount(full_int({3}, 5), {.bins = 5}).eval(); }},
      {"no bins", [] { histogram(zeros({3}), {.bins = 0}); }},
      {"a range from its end", [] { histogram(zeros({3}), {.range = std::pair(1.0, 0.0)}); }},
      {"a mask of numbers",
       [] {
         masked_select(matrix(), zeros({3, 4}));
       }},
      {"a mask of another shape", [] { masked_select(matrix(), zeros({4}, boolean)); }},
      {"one shift for two axes",
       [] {
         roll(matrix(), {1}, {0, 1});
       }},
      {"points of other spaces",
       [] {
         cdist(matrix(), zeros({3, 5}));
       }},
      {"an odd number of turned features",
       [] {
         rope(zeros({2, 5}));
       }},
      {"positions of other steps",
       [] {
         rope(zeros({2, 4}), {.positions = zeros({3})});
       }},
      {"heads that do not divide",
       [] {
         attention(zeros({1, 5, 2, 4}), zeros({1, 2, 2, 4}), zeros({1, 2, 2, 4}));
       }},
      {"running products along no axis", [] { cumprod(matrix(), 2); }},
  });
}

}  // namespace
}  // namespace varve::test
