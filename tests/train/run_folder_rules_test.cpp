// The folder of a run: one writer, nothing left over, nothing lost, nothing damaged without a word.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "fit_helpers.h"
#include "text_checks.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/run_lock.h"
#include "varve/train/run.h"

namespace varve {
namespace {

using namespace train_tests;
using test::contains;
namespace fs = std::filesystem;

train::FitOptions quick(const std::string& run) {
  train::FitOptions options;
  options.epochs = 2;
  options.batch = 50;
  options.run = run;
  options.verbosity = train::Verbosity::quiet;
  return options;
}

train::History fit_here(const train::FitOptions& options) {
  nn::Sequential model = small_network();
  return train::fit(model, points(100, 1), options);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RunFolder, HasOneWriter) {
  const Folder folder;
  train::FitOptions options = quick(folder / "run");
  std::string second, holder;
  options.callbacks = {train::each_epoch([&](train::Session&) {
    train::FitOptions again = quick(folder / "run");
    again.resume = true;
    holder = train::holder_of(folder / "run");
    second = error_of([&] { fit_here(again); });
  })};
  fit_here(options);
  const std::string process = "process " + std::to_string(getpid()) + " on ";
  EXPECT_TRUE(holder.starts_with(process)) << holder;
  EXPECT_TRUE(contains(second, "is being written by " + process)) << second;
  EXPECT_EQ(train::holder_of(folder / "run"), "");
  EXPECT_FALSE(fs::exists(folder / "run/.lock"));
  options.callbacks.clear();
  options.resume = true;
  options.epochs = 3;
  EXPECT_EQ(fit_here(options).epochs.size(), 3u);
}

TEST(RunFolder, LosesWhatAKilledSaveLeft) {
  const Folder folder;
  train::FitOptions options = quick(folder / "run");
  fit_here(options);
  const std::vector<std::string> leftovers = {"last.safetensors.aB3xY9", "index.html.000000"};
  const std::vector<std::string> others = {"last.safetensors.old", "notes.abcdef", "last.safetensors.a-b_c.",
                                           "best.safetensors.12345"};
  for (const auto& names : {leftovers, others})
    for (const std::string& name : names) std::ofstream(folder / ("run/" + name)) << "half";
  options.resume = true;
  fit_here(options);
  for (const std::string& name : leftovers) EXPECT_FALSE(fs::exists(folder / ("run/" + name))) << name;
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder / ("run/" + name))) << name;
}

TEST(RunFolder, OfAStartThatFailedIsRemoved) {
  const Folder folder;
  struct Failing : train::Callback {
    void begin(train::Session&) override { throw Error("no"); }
  };
  train::FitOptions options = quick(folder / "run");
  options.callbacks = {std::make_shared<Failing>()};
  EXPECT_EQ(error_of([&] { fit_here(options); }), "no");
  EXPECT_FALSE(fs::exists(folder / "run"));
  train::Config config = train::load_config("linear", {"data=digits", "data.train=100", "data.test=10", "epochs=1"});
  config.runs = folder / "runs";
  const auto failing = [](const train::RunStart&) { throw Error("not yet"); };
  EXPECT_EQ(error_of([&] { train::run(config, {.started = failing}); }), "not yet");
  EXPECT_FALSE(fs::exists(folder / "runs"));
  // What was there before stays.
  fs::create_directory(folder / "run");
  std::ofstream(folder / "run/notes") << "mine";
  EXPECT_EQ(error_of([&] { fit_here(options); }), "no");
  EXPECT_TRUE(fs::exists(folder / "run/notes"));
  // And so does what was trained.
  options.callbacks.clear();
  fs::remove_all(folder / "run");
  options.callbacks = {train::each_epoch([](train::Session&) { throw Error("later"); })};
  EXPECT_EQ(error_of([&] { fit_here(options); }), "later");
  EXPECT_TRUE(fs::exists(folder / "run/last.safetensors"));
}

TEST(RunFolder, ThatHoldsARunIsNotStartedOver) {
  const Folder folder;
  train::FitOptions options = quick(folder / "run");
  fit_here(options);
  const std::string refusal = error_of([&] { fit_here(options); });
  for (const char* part : {"holds a run already (2 epochs)", ".resume = true", ".overwrite = true"})
    EXPECT_TRUE(contains(refusal, part)) << refusal;
  EXPECT_EQ(train::peek_checkpoint(train::last_checkpoint(options.run)).epoch, 2);
  options.overwrite = true;
  options.epochs = 1;
  EXPECT_EQ(fit_here(options).epochs.size(), 1u);
  EXPECT_EQ(train::peek_checkpoint(train::last_checkpoint(options.run)).epoch, 1);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(RunFolder, NoticesEveryFlippedBit) {
  const Folder folder;
  fit_here(quick(folder / "run"));
  const std::string path = train::last_checkpoint(folder / "run"), other = folder / "flipped.safetensors";
  const std::string whole = content_of(path);
  ASSERT_GT(whole.size(), 1000u);
  EXPECT_EQ(train::load_checkpoint(path, {}).epoch, 2);
  for (std::size_t i = 0; i < whole.size(); i += i < 3000 ? 1 : 13) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    std::ofstream(other, std::ios::binary) << flipped;
    EXPECT_NE(error_of([&] { train::load_checkpoint(other, {}); }), "") << "bit " << i % 8 << " of byte " << i;
  }
  // The best weights have a checksum as well.
  std::string best = content_of(train::best_weights(folder / "run"));
  best.back() = static_cast<char>(best.back() ^ 1);
  std::ofstream(other, std::ios::binary) << best;
  nn::Sequential model = small_network();
  model.build({8});
  EXPECT_TRUE(contains(error_of([&] { model.load(other); }), "checksum does not fit"));
}

TEST(RunFolder, ReadsCheckpointsWithoutAChecksum) {
  const Folder folder;
  fit_here(quick(folder / "run"));
  Safetensors old = load_safetensors(train::last_checkpoint(folder / "run"));
  old.metadata.erase("varve.crc32");
  std::string& manifest = old.metadata["varve.manifest"];
  const std::string field = "\"checksum\":true,";
  ASSERT_TRUE(contains(manifest, field));
  manifest.erase(manifest.find(field), field.size());
  save_safetensors(folder / "old.safetensors", old);
  EXPECT_EQ(train::load_checkpoint(folder / "old.safetensors", {}).epoch, 2);
}

TEST(Interrupts, SayWhichSignalAndLeaveIgnoredOnesAlone) {
  const Folder folder;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    train::FitOptions options = quick(folder / std::to_string(signal));
    options.callbacks = {train::each_step([&](train::Session& s) {
      if (s.step() == 1) raise(signal);
    })};
    const train::History history = fit_here(options);
    EXPECT_TRUE(history.interrupted);
    EXPECT_EQ(history.signal, signal);
    EXPECT_EQ(train::peek_checkpoint(train::last_checkpoint(options.run)).step, 1);
  }
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &before);
  train::FitOptions options = quick("");
  options.callbacks = {train::each_step([](train::Session&) { raise(SIGHUP); })};
  EXPECT_FALSE(fit_here(options).interrupted);
  sigaction(SIGHUP, &before, nullptr);
}

}  // namespace
}  // namespace varve
