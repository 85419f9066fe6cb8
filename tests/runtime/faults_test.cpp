// What goes wrong: labels out of range, memory that runs out at any moment, values that are not finite.
#include <gtest/gtest.h>

#include <limits>

#include "base/memory.h"
#include "runtime/engine.h"
#include "runtime/training.h"

namespace varve::runtime {
namespace {

class Faults : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override {
    fail_allocation_after(0);
    set_device("cpu");
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Faults, testing::Values("reference", "cpu"));

Tensors values_of(const std::vector<Variable>& state) {
  Tensors values;
  for (const Variable& v : state) values.push_back((v.value() * 1).eval());
  return values;
}

void expect_unchanged(const std::vector<Variable>& state, const Tensors& before) {
  for (std::size_t i = 0; i < state.size(); ++i)
    EXPECT_EQ(state[i].value().to_vector<float>(), before[i].to_vector<float>()) << state[i].name();
}

TEST_P(Faults, ALabelOutOfRangeIsRefusedBeforeAnythingIsWritten) {
  SmallNet net;
  auto step = compile([&](const Tensor& x, const Tensor& y) { return net.step(x, reshape(y, {4})); });
  const Tensor x = images(4), good = reshape(classes(4), {2, 2});
  step(x, good);
  const Tensors before = values_of(net.state());
  const std::string text = error_of([&] { step(x, tensor({{1, 2}, {99, 4}}).to(i64)); });
  EXPECT_TRUE(contains(text, "99")) << text;
  EXPECT_TRUE(contains(text, "Nothing was changed")) << text;
  expect_unchanged(net.state(), before);
  EXPECT_GT(step(x, good).item<float>(), 0.f);
}

// A position that the step computes itself is seen by its kernel: the step ends before it writes.
TEST_P(Faults, AComputedPositionOutOfRangeLeavesTheStateAlone) {
  SmallNet net;
  auto step = compile([&](const Tensor& x, const Tensor& y) { return net.step(x, y * 3); });
  const Tensor x = images(4), good = tensor(std::vector<std::int64_t>{0, 1, 2, 0});
  step(x, good);
  const Tensors before = values_of(net.state());
  const Tensor loss = step(x, tensor(std::vector<std::int64_t>{0, 33, 0, 0}));  // no error yet
  EXPECT_TRUE(contains(error_of([&] { loss.item<float>(); }), "99"));
  expect_unchanged(net.state(), before);
  EXPECT_GT(step(x, good).item<float>(), 0.f);
}

// What was written before something went wrong is not trusted until somebody says so. (The reference backend writes
// state at the end, and has nothing to spoil.)
TEST(SpoiltState, WhatWasWrittenBeforeIsSpoiltUntilItIsAssignedOrAccepted) {
  constexpr std::int64_t kLarge = 20000;  // more than is saved before a step
  Variable count("count", zeros({kLarge})), sum("sum", zeros({1}));
  auto step = compile([&](const Tensor& i) {
    count.assign(count + 1);
    const Tensor place = cast(count.value().slice({{0, 1}}), i64) * i;  // follows the first update
    sum.assign(sum + gather(count, place));
  });
  step(tensor(std::vector<std::int64_t>{0}));
  EXPECT_EQ(sum.value().to_vector<float>(), (Floats{1}));
  step(tensor(std::vector<std::int64_t>{kLarge}));
  EXPECT_EQ(sum.value().to_vector<float>(), (Floats{1}));
  const std::string spoilt = error_of([&] { count.value(); });
  EXPECT_TRUE(contains(spoilt, "count")) << spoilt;
  EXPECT_TRUE(contains(spoilt, "accept()")) << spoilt;
  EXPECT_THROW(step(tensor(std::vector<std::int64_t>{0})), Error);
  count.accept();
  step(tensor(std::vector<std::int64_t>{0}));
  EXPECT_EQ(sum.value().item<float>(), 1 + count.value().to_vector<float>()[0]);
  count.assign(zeros({kLarge}));
  step(tensor(std::vector<std::int64_t>{0}));
  EXPECT_EQ(count.value().to_vector<float>()[0], 1.f);
}

TEST_P(Faults, ABadArgumentLeavesTheStateAlone) {
  Variable v("v", ones({2}));
  auto step = compile([&](const Tensor& x) { v.assign(v + x); });
  step(ones({2}));
  const Tensor bad = gather(ones({3}), tensor(std::vector<std::int64_t>{0, 5}));
  EXPECT_THROW(step(bad), Error);
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{2, 2}));
  step(ones({2}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{3, 3}));
}

TEST_P(Faults, AFailedResultFailsWhateverIsMadeOfIt) {
  auto f = compile([](const Tensor& table, const Tensor& i) { return gather(table, i); });
  const Tensor table = tensor({1.f, 2.f, 3.f});
  const Tensor bad = f(table, tensor(std::vector<std::int64_t>{7}));
  EXPECT_THROW((bad * 0).eval(), Error);
  EXPECT_EQ(f(table, tensor(std::vector<std::int64_t>{2})).item<float>(), 3.f);  // the next call is a new one
  EXPECT_THROW(bad.eval(), Error);
}

TEST_P(Faults, AValueThatIsNotFiniteIsNamed) {
  auto f = compile([](const Tensor& x) { return check_finite(varve::log(x), "the loss"); });
  EXPECT_EQ(f(ones({2})).to_vector<float>(), (Floats{0, 0}));
  const Tensor bad = f(tensor({1.f, -1.f}));
  const std::string text = error_of([&] { bad.eval(); });
  EXPECT_TRUE(contains(text, "the loss")) << text;
}

// Memory runs out at the first, second, … allocation of compiling and of the first steps.
TEST_P(Faults, MemoryRunsOutAnywhere) {
  const Tensor x = images(4), y = classes(4);
  SmallNet expected;
  auto right = compile([&](const Tensor& a, const Tensor& b) { return expected.step(a, b); });
  right(x, y);
  bool survived = false;
  for (int n = 1; n < 400 && !survived; ++n) {
    SmallNet net;
    for (const Variable& v : net.state()) v.value().eval();
    const Tensor constant = transpose(ones({4, 4}) * 1);
    constant.eval();
    auto step = compile([&](const Tensor& a, const Tensor& b) {
      const Tensor loss = net.step(a, b);
      return loss + sum(constant) * 0;
    });
    fail_allocation_after(n);
    try {
      step(x, y).item<float>();
      survived = true;
    } catch (const Error&) {
    }
    fail_allocation_after(0);
    for (const Variable& v : net.state()) ASSERT_EQ(error_of([&] { v.value(); }), "");  // nothing was written yet
    while (net.adam.step.value().item<float>() < 1) step(x, y);
    const std::vector<Floats> got = net.numbers(), want = expected.numbers();
    for (std::size_t i = 0; i < got.size(); ++i)
      for (std::size_t j = 0; j < got[i].size(); ++j) ASSERT_NEAR(got[i][j], want[i][j], 1e-4) << "after failure " << n;
  }
  EXPECT_TRUE(survived);
}

TEST_P(Faults, MemoryRunsOutInLazyCode) {
  bool survived = false;
  for (int n = 1; n < 100 && !survived; ++n) {
    clear_cache();
    const Tensor a = tensor({{1.f, 2.f}, {3.f, 4.f}});
    const Tensor b = softmax(matmul(a, transpose(a)) * 0.1) + cumsum(a);
    fail_allocation_after(n);
    try {
      b.eval();
      survived = true;
    } catch (const OutOfMemory&) {
    }
    fail_allocation_after(0);
    EXPECT_NEAR(sum(b).item<float>(), 2.f + 1 + 3 + 3 + 7, 1e-4);
  }
  EXPECT_TRUE(survived);
}

TEST_P(Faults, TooLargeIsRefusedAtTheCall) {
  EXPECT_THROW(ones({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  EXPECT_THROW(broadcast_to(ones({1, 1}), {std::int64_t{1} << 32, std::int64_t{1} << 32}), Error);
  auto f = compile([](const Tensor& x) { return matmul(x, transpose(x)) * 2 + 1; });
  EXPECT_THROW(f(ones({std::int64_t{1} << 30, 1})), Error);  // needs 2^62 bytes: at compile
}

}  // namespace
}  // namespace varve::runtime
