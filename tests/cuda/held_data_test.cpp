// Data held on a device: read once, and a training that ends with the same bits as one that is given every batch.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/device/context.h"
#include "cuda/gpu_here.h"
#include "cuda/on_cuda.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve {
namespace {

// Pictures in three classes; counts how often one is read.
class Pictures final : public data::Source {
 public:
  explicit Pictures(std::int64_t size, std::int64_t broken = -1, std::int64_t side = 4)
      : size_(size), broken_(broken), side_(side) {}
  std::int64_t size() const override { return size_; }
  TensorType x() const override { return {f32, {side_, side_, 1}}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    if (++reads == stop_at) raise(SIGTERM);
    std::vector<float> pixels(static_cast<std::size_t>(side_ * side_));
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = std::sin(static_cast<float>(index * 16 + static_cast<std::int64_t>(i)));
    if (index == broken_) pixels[3] = NAN;
    const auto target = static_cast<std::int32_t>(pixels[0] > 0.3f ? 2 : pixels[1] > 0 ? 1 : 0);
    std::memcpy(x, pixels.data(), pixels.size() * sizeof(float));
    std::memcpy(y, &target, sizeof target);
  }
  mutable std::atomic<std::int64_t> reads = 0;
  std::int64_t stop_at = -1;  // the user stops the run at this read

 private:
  std::int64_t size_, broken_, side_;
};

data::Dataset set_of(const std::shared_ptr<Pictures>& pictures) {
  return {pictures, {.name = "pictures", .classes = {"a", "b", "c"}, .vocabulary = nullptr}};
}

// A transform that does nothing, which only its caller knows: every batch is read and copied.
data::Dataset given(const data::Dataset& set) {
  return set.map({{"none", [](data::Image&, data::Random&) {}}});
}

nn::Sequential network() {
  return nn::sequential(nn::flatten(), nn::dense(16, {.activation = nn::relu}), nn::batch_norm(), nn::dropout(0.2),
                        nn::dense(3));
}

train::FitOptions options(const data::Dataset& validation) {
  train::FitOptions options;
  options.optimizer = optim::adam(1e-2);
  options.epochs = 3;
  options.batch = 32;  // 100 samples: the last batch has 4
  options.validation = validation;
  options.save_seconds = 1e9;
  options.verbosity = train::Verbosity::quiet;
  return options;
}

void expect_same(const train::History& a, const train::History& b) {
  ASSERT_EQ(a.epochs.size(), b.epochs.size());
  for (std::size_t i = 0; i < a.epochs.size(); ++i) EXPECT_EQ(a.epochs[i].values, b.epochs[i].values) << "epoch " << i;
}

// An emulated GPU has as much memory as is taken now and so many bytes more.
class LittleMemory {
 public:
  explicit LittleMemory(std::size_t bytes) {
    setenv("VARVE_EMULATOR_BYTES", "1", 1);
    // An allocation that fails gives back first what was kept for later.
    EXPECT_THROW(full({std::int64_t{1} << 25}, 1).to_vector<float>(), OutOfMemory);
    unsetenv("VARVE_EMULATOR_BYTES");
    std::size_t free = 0, total = 0;
    cuda::context().make_current();
    EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
    setenv("VARVE_EMULATOR_BYTES", std::to_string(total - free + bytes).c_str(), 1);
  }
  ~LittleMemory() { unsetenv("VARVE_EMULATOR_BYTES"); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;
};

constexpr const char* kForEmulated = "this GPU is a real one; the test makes an emulated one's memory small";

TEST_F(OnDevice, DataThatDoesNotFitBesideTheStepIsNotHeld) {
  if (!cuda::is_emulated()) GTEST_SKIP() << kForEmulated;
  const auto pictures = std::make_shared<Pictures>(600, -1, 64), others = std::make_shared<Pictures>(40, -1, 64);
  for (const std::int64_t accumulate : {1, 2}) {
    const auto trained = [&] {
      nn::Sequential model = network();
      train::FitOptions all = options(set_of(others));
      all.accumulate = accumulate;
      pictures->reads = others->reads = 0;
      return train::fit(model, set_of(pictures), all);
    };
    const train::History held = trained();
    EXPECT_EQ(pictures->reads, 600);
    const LittleMemory little(std::size_t{8} << 20);  // the data has 9.8 MB
    expect_same(trained(), held);
    EXPECT_EQ(pictures->reads, 4 * 600);  // once to be held, and then in each epoch
  }
}

TEST_F(OnDevice, DataThatLeavesNoRoomForTheValidationIsLetGo) {
  if (!cuda::is_emulated()) GTEST_SKIP() << kForEmulated;
  const auto pictures = std::make_shared<Pictures>(600, -1, 64), others = std::make_shared<Pictures>(200, -1, 64);
  const auto trained = [&] {
    nn::Sequential model = network();
    pictures->reads = 0;
    return train::fit(model, set_of(pictures), options(set_of(others)));
  };
  const train::History held = trained();
  EXPECT_EQ(pictures->reads, 600);
  const LittleMemory little(std::size_t{13} << 20);  // the data has 9.8 MB and fits, the others have 3.3
  expect_same(trained(), held);
  EXPECT_EQ(pictures->reads, 3 * 600);  // once to be held, and then in each epoch but the first
}

TEST_F(OnDevice, HeldDataIsReadOnceAndGivesTheSameBits) {
  const auto pictures = std::make_shared<Pictures>(100), others = std::make_shared<Pictures>(300);
  const data::Dataset set = set_of(pictures), validation = set_of(others);
  for (const std::int64_t accumulate : {1, 2}) {
    const auto trained = [&](const data::Dataset& train, const data::Dataset& test) {
      nn::Sequential model = network();
      train::FitOptions all = options(test);
      all.accumulate = accumulate;
      pictures->reads = others->reads = 0;
      return train::fit(model, train, all);
    };
    const train::History held = trained(set, validation);
    EXPECT_EQ(pictures->reads, 100);
    EXPECT_EQ(others->reads, 300);
    expect_same(held, trained(given(set), given(validation)));
    EXPECT_GT(others->reads, 300);
  }
}

TEST_F(OnDevice, HeldDataGoesOnInTheMiddleOfAnEpoch) {
  const test::TemporaryFolder folder;
  const data::Dataset set = set_of(std::make_shared<Pictures>(100));
  nn::Sequential straight = network(), first = network(), second = network();
  const train::History want = train::fit(straight, set, options(set));
  train::FitOptions stopped = options(set);
  stopped.run = folder / "run";
  stopped.callbacks = {train::each_step([](train::Session& session) {
    if (session.step() == 6) raise(SIGTERM);
  })};
  EXPECT_TRUE(train::fit(first, set, stopped).interrupted);
  stopped.callbacks = {};
  stopped.resume = true;
  expect_same(train::fit(second, set, stopped), want);
}

TEST_F(OnDevice, StoppedWhileItReadsWhatToHold) {
  const auto pictures = std::make_shared<Pictures>(100);
  pictures->stop_at = 40;
  nn::Sequential model = network();
  const train::History history = train::fit(model, set_of(pictures), options({}));
  EXPECT_TRUE(history.interrupted);
  EXPECT_TRUE(history.epochs.empty());
}

TEST_F(OnDevice, ANanInHeldDataIsFollowedToALayer) {
  const test::TemporaryFolder folder;
  train::FitOptions all = options({});
  all.run = folder / "run";
  nn::Sequential model = network();
  try {
    train::fit(model, set_of(std::make_shared<Pictures>(100, 70)), all);
    FAIL() << "a NaN was learnt from";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layer \"0\""), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace varve
