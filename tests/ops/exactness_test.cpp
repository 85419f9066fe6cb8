// What rows in double cannot say: exact integers, ties, marks that only gradients or errors see, views without copies.
#include <gtest/gtest.h>

#include <cstdint>

#include "ops/values.h"
#include "varve/autodiff.h"

namespace varve::test {

namespace {

using Whole = std::vector<std::int64_t>;

class Exactness : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override { set_device(before_); }

 private:
  const std::string before_ = device();
};

TEST_P(Exactness, IntegersPastTheDigitsOfADouble) {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ((tensor(Whole{large, -large}) + 1).to_vector<std::int64_t>(), (Whole{large + 1, 1 - large}));
  EXPECT_EQ((tensor(Whole{large}) == large - 1).item<bool>(), false);
  EXPECT_EQ(maximum(tensor(Whole{large}), large - 1).item<std::int64_t>(), large);
  EXPECT_EQ(full_int({2}, large).to_vector<std::int64_t>(), (Whole{large, large}));
  EXPECT_EQ(concat({tensor(Whole{large}), tensor(Whole{1})}).to_vector<std::int64_t>(), (Whole{large, 1}));
}

TEST_P(Exactness, IntegersWrapAndDivideWithoutTraps) {
  const Tensor bytes = tensor(std::vector<std::uint8_t>{200, 255});
  EXPECT_EQ((bytes + bytes).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{144, 254}));
  const Tensor a = tensor(Whole{INT64_MIN, 7, -7, 5}), b = tensor(Whole{-1, -2, 2, 0});
  EXPECT_EQ(floor_divide(a, b).to_vector<std::int64_t>(), (Whole{INT64_MIN, -4, -4, 0}));
  EXPECT_EQ((a % b).to_vector<std::int64_t>(), (Whole{0, -1, 1, 0}));
}

TEST_P(Exactness, TiesShareTheGradient) {
  const Tensor x = tensor({1.f, 2.f, 3.f});
  const auto larger = [&](const Tensor& y) { return sum(maximum(y, tensor({1.f, 1.f, 4.f}))); };
  EXPECT_EQ(grad(larger)(x).to_vector<float>(), (std::vector<float>{0.5f, 1, 0}));
  // At a bound of clip the gradient goes to x, at the kink of relu nowhere.
  EXPECT_EQ(grad([](const Tensor& y) { return sum(clip(y, 1, 2)); })(x).to_vector<float>(),
            (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(grad([](const Tensor& y) { return sum(relu(y - 2)); })(x).to_vector<float>(),
            (std::vector<float>{0, 0, 1}));
}

TEST_P(Exactness, GradientsStopWhereToldTo) {
  const Tensor x = tensor({1.f, 2.f, 3.f});
  EXPECT_EQ(grad([](const Tensor& y) { return sum(y * stop_gradient(y)); })(x).to_vector<float>(),
            (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(grad([](const Tensor& y) { return sum(floor(y) + y.to(i32).to(f32) + y); })(x).to_vector<float>(),
            (std::vector<float>{1, 1, 1}));
}

TEST_P(Exactness, CheckFiniteSpeaksAtTheRead) {
  const Tensor bad = check_finite(log(tensor({1.f, 0.f})), "the loss of layer 3");
  try {
    bad.eval();
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the loss of layer 3"), std::string::npos) << e.what();
  }
  EXPECT_EQ(check_finite(tensor({1.f, 2.f}), "x").to_vector<float>(), (std::vector<float>{1, 2}));
}

INSTANTIATE_TEST_SUITE_P(Backends, Exactness, testing::ValuesIn(executing_backends()),
                         [](const auto& backend) { return backend.param; });

std::optional<Layout> reshaped(const Shape& from, const Layout& layout, const Shape& to) {
  const OpRecord& op = find_operator("reshape");
  const std::vector<TensorType> in = {{f32, from}};
  const Attrs attrs = {{"shape", to}};
  return op.view({op, in, attrs}, layout, {f32, to});
}

TEST(Views, ReshapeCopiesOnlyWhenItMust) {
  const Layout rows{5, {8, 1}};  // [3, 4] inside rows of 8
  EXPECT_EQ(reshaped({3, 4}, rows, {3, 2, 2}), (Layout{5, {8, 2, 1}}));
  EXPECT_EQ(reshaped({3, 4}, rows, {1, 3, 4, 1}), (Layout{5, {0, 8, 1, 0}}));
  EXPECT_EQ(reshaped({3, 4}, rows, {12}), std::nullopt);
  EXPECT_EQ(reshaped({3, 4}, Layout{0, {1, 3}}, {12}), std::nullopt);                  // transposed
  EXPECT_EQ(reshaped({2, 3, 4}, Layout{0, {24, 8, 2}}, {6, 4}), (Layout{0, {8, 2}}));  // every second of [2, 3, 8]
  EXPECT_EQ(reshaped({3, 4}, Layout{0, {0, 0}}, {12}), (Layout{0, {0}}));              // one element repeated
  EXPECT_EQ(reshaped({4, 3}, Layout{11, {-3, -1}}, {12}), (Layout{11, {-1}}));
}

TEST(Operators, ALookUpThatFailsSuggestsTheNearest) {
  EXPECT_EQ(&find_operator("add"), &add.record());
  try {
    find_operator("trnspose");
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'transpose'"), std::string::npos) << e.what();
  }
}

}  // namespace

}  // namespace varve::test
