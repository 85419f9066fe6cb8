// A run that was stopped and goes on ends with the same bits as one that never stopped.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "fit_helpers.h"

namespace varve {
namespace {

using namespace train_tests;
namespace fs = std::filesystem;

train::FitOptions everything(const std::string& run) {
  train::FitOptions options;
  options.optimizer = optim::adam(1e-2).clip_norm(1);
  options.schedule = optim::one_cycle().after_warmup(0.5);
  options.epochs = 3;
  options.batch = 32;
  options.validation = points(100, 2);
  options.run = run;
  options.seed = 11;
  options.average = 0.95;
  options.mixup = 0.2;
  options.save_seconds = 1e9;
  options.callbacks = {train::early_stopping({.patience = 50})};
  options.verbosity = train::Verbosity::quiet;
  return options;
}

void expect_same_files(const std::string& a, const std::string& b) {
  const Safetensors x = load_safetensors(a), y = load_safetensors(b);
  ASSERT_EQ(x.tensors.size(), y.tensors.size());
  for (std::size_t i = 0; i < x.tensors.size(); ++i) {
    EXPECT_EQ(x.tensors[i].first, y.tensors[i].first);
    EXPECT_TRUE(same_bits(x.tensors[i].second, y.tensors[i].second)) << x.tensors[i].first;
  }
}

void expect_same_history(const train::History& a, const train::History& b) {
  ASSERT_EQ(a.epochs.size(), b.epochs.size());
  for (std::size_t i = 0; i < a.epochs.size(); ++i) {
    EXPECT_EQ(a.epochs[i].values, b.epochs[i].values) << "epoch " << i + 1;
    EXPECT_EQ(a.epochs[i].rate, b.epochs[i].rate);
  }
  EXPECT_EQ(a.best_epoch, b.best_epoch);
}

TEST(Resume, AfterSigtermAtEveryKindOfMoment) {
  const Folder folder;
  nn::Sequential straight = small_network();
  const train::History want = train::fit(straight, points(200, 1), everything(folder / "straight"));
  for (const std::int64_t moment : {1, 5, 7, 8, 20}) {  // 7 batches an epoch: within one, at its last, after it
    const std::string run = folder / ("stopped" + std::to_string(moment));
    nn::Sequential first = small_network();
    train::FitOptions options = everything(run);
    options.callbacks.push_back(train::each_step([&](train::Session& session) {
      if (session.step() == moment) raise(SIGTERM);
    }));
    EXPECT_TRUE(train::fit(first, points(200, 1), options).interrupted) << moment;
    nn::Sequential second = small_network();
    options = everything(run);
    options.resume = true;
    const train::History got = train::fit(second, points(200, 1), options);
    EXPECT_FALSE(got.interrupted);
    expect_same_history(got, want);
    expect_same_files(run + "/last.safetensors", folder / "straight/last.safetensors");
    expect_same_files(run + "/best.safetensors", folder / "straight/best.safetensors");
  }
}

// Generated code of matrix products uses the stack pointer as it likes: a handler must not run on that stack.
TEST(Resume, SignalsInTheMiddleOfAProduct) {
  const data::Dataset set = points(512, 1);
  auto model =
      nn::sequential(nn::dense(256, {.activation = nn::relu}), nn::dense(256, {.activation = nn::relu}), nn::dense(3));
  train::FitOptions options;
  options.epochs = 1000;
  options.batch = 128;
  options.verbosity = train::Verbosity::quiet;
  for (int i = 0; i < 40; ++i) {
    std::thread sender;
    options.callbacks = {train::each_step([&](train::Session& session) {
      if (session.step() == 2)
        sender = std::thread([i] {
          std::this_thread::sleep_for(std::chrono::microseconds(50 + 37 * i));
          kill(getpid(), SIGTERM);
        });
    })};
    EXPECT_TRUE(train::fit(model, set, options).interrupted);
    sender.join();
  }
}

TEST(Resume, AFinishedRunStaysAsItIs) {
  const Folder folder;
  nn::Sequential model = small_network();
  train::FitOptions options = everything(folder / "run");
  const train::History want = train::fit(model, points(100, 1), options);
  options.resume = true;
  nn::Sequential again = small_network();
  expect_same_history(train::fit(again, points(100, 1), options), want);
  EXPECT_TRUE(same_bits(model.variable("0.weight").value(), again.variable("0.weight").value()));
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Resume, RefusesAnotherRunAndDamagedFiles) {
  const Folder folder;
  nn::Sequential model = small_network();
  train::FitOptions options = everything(folder / "run");
  train::fit(model, points(100, 1), options);
  options.resume = true;
  options.epochs = 5;
  const auto again = [&] {
    nn::Sequential fresh = small_network();
    train::fit(fresh, points(100, 1), options);
  };
  options.seed = 12;
  EXPECT_NE(refusal(again).find("seed 11"), std::string::npos) << refusal(again);
  options.seed = 11;
  options.optimizer = optim::sgd(0.1);
  EXPECT_FALSE(refusal(again).empty());
  options.optimizer = everything("").optimizer;
  const auto wider = [&] {
    auto other = nn::sequential(nn::dense(33), nn::batch_norm(), nn::dropout(0.2), nn::dense(3));
    train::fit(other, points(100, 1), options);
  };
  EXPECT_NE(refusal(wider).find("0.weight"), std::string::npos) << refusal(wider);

  const std::string path = folder / "run/last.safetensors";
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc).write(whole.data(), static_cast<std::streamsize>(length));
    EXPECT_NE(refusal(again).find("last.safetensors"), std::string::npos) << length << ": " << refusal(again);
  }
  std::string lying = whole;
  lying.replace(lying.find("\\\"epoch\\\""), 9, "\\\"epoxh\\\"");
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(lying.data(), static_cast<std::streamsize>(lying.size()));
  EXPECT_NE(refusal(again).find("checksum"), std::string::npos) << refusal(again);
  Safetensors unchecked = load_safetensors(folder / "run/best.safetensors");
  unchecked.metadata = {{"varve.manifest", R"({"format": 1, "epoxh": 1})"}};
  save_safetensors(path, unchecked);
  EXPECT_NE(refusal(again).find("manifest is damaged"), std::string::npos) << refusal(again);
}

TEST(Resume, SharedWeightsStayOne) {
  const Folder folder;
  const auto network = [] {
    nn::Embedding table = nn::embedding(5, 6);
    return nn::sequential(table, nn::mean_steps(), nn::TiedDense(table));
  };
  const Tensor ids = cast(floor(uniform({64, 4}, {.seed = 1}) * 5), i32).eval();
  const data::Dataset set = data::from_tensors(ids, cast(ids.slice({{0, kEnd}, {0, 1}}), i32).reshape({64}).eval());
  train::FitOptions options;
  options.epochs = 2;
  options.run = folder / "run";
  options.verbosity = train::Verbosity::quiet;
  auto first = network();
  train::fit(first, set, options);
  EXPECT_EQ(first.parameters().size(), 1u);
  options.resume = true;
  options.epochs = 3;
  auto second = network();
  train::fit(second, set, options);
  EXPECT_EQ(second.parameters().size(), 1u);
  EXPECT_TRUE(same_bits(second.variable("0.weight").value(), second.variable("2.weight").value()));
  auto straight = network();
  options.run = folder / "straight";
  options.resume = false;
  train::fit(straight, set, options);
  EXPECT_TRUE(same_bits(second.variable("0.weight").value(), straight.variable("0.weight").value()));
}

}  // namespace
}  // namespace varve
