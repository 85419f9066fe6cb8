// Programs on a device, a GPU or the emulated one: where values lie, when they come back, what happens when memory
// ends.
#include <gtest/gtest.h>

#include <cmath>

#include "base/memory.h"
#include "cuda/on_cuda.h"
#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/nn.h"
#include "varve/optim.h"

namespace varve {
namespace {

class OnDevice : public OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (!IsSkipped()) set_device("cuda");
  }
  void TearDown() override { set_device("cpu"); }
};

TEST_F(OnDevice, ResultsOfManyRunsAreTheirOwn) {
  auto twice = compile([](Tensor x) { return x * 2; });
  std::vector<Tensor> kept;
  for (int i = 0; i < 12; ++i) kept.push_back(twice(full({3}, i)));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(kept[static_cast<std::size_t>(i)].to_vector<float>()[1], 2.0f * i);
}

TEST_F(OnDevice, LargeResultsStayThereAndMoveOutInTime) {
  auto plus = compile([](Tensor x) { return x + 1; });
  Tensor x = zeros({2000});
  std::vector<Tensor> kept;
  for (int i = 0; i < 6; ++i) kept.push_back(x = plus(x));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(kept[static_cast<std::size_t>(i)].to_vector<float>()[1999], i + 1.0f);
}

TEST_F(OnDevice, AVariableGoesBackAndForth) {
  Variable w("w", full({4}, 1.0));
  auto step = compile([&](Tensor x) {
    w.assign(w.value() + x);
    return sum(w.value());
  });
  const Tensor one = full({4}, 1.0);
  for (int i = 0; i < 3; ++i) step(one);
  EXPECT_EQ(w.value().to_vector<float>()[0], 4.0f);  // read here
  for (int i = 0; i < 2; ++i) step(one);             // changed there
  EXPECT_EQ(w.value().to_vector<float>()[3], 6.0f);
  set_device("cpu");
  step(one);  // changed by the processor
  set_device("cuda");
  EXPECT_EQ(step(one).item<float>(), 32.0f);
}

TEST_F(OnDevice, TwoRunsOfTrainingAreEqualBitForBit) {
  const auto losses = [] {
    auto model = nn::sequential(nn::dense(16, {.activation = nn::relu}), nn::dropout(0.2), nn::dense(3));
    model.build({8}, {.seed = 3});
    auto adam = optim::adam(1e-2).over(model.parameters());
    auto step = compile([&](Tensor x, Tensor y) {
      auto [loss, gradients] =
          value_and_grad([&] { return cross_entropy(model(x, Mode::train), y); }, model.parameters());
      adam.apply(gradients);
      return loss;
    });
    const Tensor x = normal({12, 8}, {.seed = 5}), y = cast(uniform({12}, {.seed = 6}) * 2.99, i32);
    std::vector<float> all;
    for (int i = 0; i < 6; ++i) all.push_back(step(x, y).item<float>());
    return all;
  };
  const std::vector<float> first = losses();
  EXPECT_EQ(first, losses());
  EXPECT_LT(first.back(), first.front());
}

TEST_F(OnDevice, AWrongIndexIsToldToTheReaderAndSpoilsState) {
  Variable table("table", zeros({5, 2}));
  auto step = compile([&](Tensor at) {
    const Tensor rows = gather(table.value(), at, 0);
    table.assign(table.value() + sum(rows));
    return sum(rows);
  });
  const Tensor bad = cast(full({1}, 7), i32);
  const Tensor result = step(bad);
  EXPECT_THROW(result.item<float>(), Error);
  EXPECT_THROW(step(bad).item<float>(), Error);
}

TEST_F(OnDevice, TooMuchMemoryIsAnErrorThatNamesTheLargestValues) {
  auto big = compile([](Tensor x) {
    const Tensor wide = cumsum(broadcast_to(x, {std::int64_t{1} << 22, 1 << 16}), 0);
    return sum(cumsum(wide, 1));
  });
  try {
    big(zeros({1, 1})).item<float>();
    FAIL() << "a terabyte was found";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("f32 [4194304, 65536]"), std::string::npos) << error.what();
  }
  EXPECT_EQ(sum(full({10}, 1.0)).item<float>(), 10.0f);  // and the process goes on
}

}  // namespace
}  // namespace varve
