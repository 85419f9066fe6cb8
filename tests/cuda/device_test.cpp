// Programs on a device, a GPU or the emulated one: where values lie, when they come back, what happens when memory
// ends.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/device.h"
#include "base/memory.h"
#include "cuda/on_cuda.h"
#include "runtime/devices.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve {
namespace {

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

auto training_step(nn::Module& model) {
  return compile([&model, adam = optim::adam(1e-2).over(model.parameters())](Tensor x, Tensor y) mutable {
    auto [loss, gradients] =
        value_and_grad([&] { return cross_entropy(model(x, Mode::train), y); }, model.parameters());
    adam.apply(gradients);
    return loss;
  });
}

TEST_F(OnDevice, TwoRunsOfTrainingAreEqualBitForBit) {
  const auto losses = [] {
    auto model = nn::sequential(nn::dense(16, {.activation = nn::relu}), nn::dropout(0.2), nn::dense(3));
    model.build({8}, {.seed = 3});
    auto step = training_step(model);
    const Tensor x = normal({12, 8}, {.seed = 5}), y = cast(uniform({12}, {.seed = 6}) * 2.99, i32);
    std::vector<float> all;
    for (int i = 0; i < 6; ++i) all.push_back(step(x, y).item<float>());
    return all;
  };
  const std::vector<float> first = losses();
  EXPECT_EQ(first, losses());
  EXPECT_LT(first.back(), first.front());
}

TEST_F(OnDevice, PlannedMemoryIsWhatTheAllocatorHolds) {
  const backend::Device& device = *runtime::backend_named("cuda").device();
  const std::int64_t before = device.memory().held;
  auto model = nn::sequential(nn::conv2d(8, {.kernel = 3, .activation = nn::relu}), nn::batch_norm(), nn::flatten(),
                              nn::dense(64, {.activation = nn::relu}), nn::dense(10));
  model.build({12, 12, 3}, {.seed = 3});
  auto step = training_step(model);
  const Tensor x = normal({64, 12, 12, 3}, {.seed = 5}).eval(), y = cast(uniform({64}) * 9.99, i32).eval();
  const std::int64_t given = device.memory().held - before;
  for (int i = 0; i < 4; ++i) static_cast<void>(step(x, y).item<float>());
  const double held = static_cast<double>(device.memory().held - before);
  EXPECT_NEAR(held, static_cast<double>(step.peak_bytes(x, y)), 0.02 * held) << given << " of them given";
}

TEST_F(OnDevice, ARunGoesOnOnTheOtherDevice) {
  const test::TemporaryFolder folder;
  const Tensor x = normal({96, 8}, {.seed = 1}).eval(),
               y = cast(argmax(matmul(x, normal({8, 3}, {.seed = 2}))), i32).eval();
  const data::Dataset points = data::from_tensors(x, y, {.classes = {"a", "b", "c"}, .vocabulary = nullptr});
  const auto trained = [&](const std::string& run, const std::string& first, const std::string& second) {
    train::FitOptions options;
    options.optimizer = optim::adam(1e-2);
    options.batch = 32;
    options.run = folder / run;
    options.verbosity = train::Verbosity::quiet;
    train::History history;
    for (const auto& [device, epochs] : {std::pair{first, 2}, {second, 4}}) {
      set_device(device);
      auto model = nn::sequential(nn::dense(16, {.activation = nn::relu}), nn::batch_norm(), nn::dense(3));
      options.epochs = epochs;
      history = train::fit(model, points, options);
      options.resume = true;
    }
    EXPECT_EQ(history.epochs.size(), 4u);
    return history.epochs.back().values[0].second;
  };
  const double alone = trained("cpu", "cpu", "cpu");
  EXPECT_NEAR(trained("to-gpu", "cpu", "cuda"), alone, 1e-4 * alone);
  EXPECT_NEAR(trained("to-cpu", "cuda", "cpu"), alone, 1e-4 * alone);
}

TEST_F(OnDevice, AProfileHasATimeForEachKernelAndATrace) {
  auto f = compile([](Tensor a, Tensor b) { return softmax(matmul(a, b)); });
  const Profile profile = f.profile(2, normal({32, 16}), normal({16, 24}));
  ASSERT_FALSE(profile.rows.empty());
  for (const ProfileRow& row : profile.rows) EXPECT_GT(row.ms, 0) << row.kernel;
  EXPECT_NE(profile.chrome_trace().find(profile.rows[0].kernel), std::string::npos) << profile.chrome_trace();
}

TEST_F(OnDevice, AnotherGpuIsRefusedInWords) {
  try {
    set_device("cuda:63");
    static_cast<void>(sum(full({2}, 1.0)).item<float>());
    FAIL() << "there are 64 GPUs";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cuda:63"), std::string::npos) << error.what();
  }
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
