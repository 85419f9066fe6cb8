// What a host of the library needs: a word on when to stop, progress for its own display, callbacks that may throw.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "fit_helpers.h"

namespace varve {
namespace {

using namespace train_tests;

// The host's answer, as long as one is alive.
struct Check {
  explicit Check(std::function<bool()> asked) { set_interrupt_check(std::move(asked)); }
  ~Check() { set_interrupt_check({}); }
};

train::FitOptions in(const std::string& run) {
  train::FitOptions options;
  options.epochs = 3;
  options.batch = 32;
  options.run = run;
  options.validation = points(64, 2);
  options.average = 0.9;
  options.verbosity = train::Verbosity::quiet;
  return options;
}

void expect_resumes(const std::string& run, const train::History& want, const nn::Module& straight) {
  nn::Sequential again = small_network();
  train::FitOptions options = in(run);
  options.resume = true;
  const train::History got = train::fit(again, points(200, 1), options);
  ASSERT_EQ(got.epochs.size(), want.epochs.size());
  for (std::size_t i = 0; i < got.epochs.size(); ++i) EXPECT_EQ(got.epochs[i].values, want.epochs[i].values) << i;
  EXPECT_TRUE(same_bits(again.variable("0.weight").value(), straight.variable("0.weight").value()));
}

TEST(Host, EndsARunAtAnyOfItsQuestions) {
  const Folder folder;
  nn::Sequential straight = small_network();
  const train::History want = train::fit(straight, points(200, 1), in(folder / "straight"));
  for (const int question : {1, 4, 9, 12, 13, 14, 20}) {  // within epochs, in validations, between epochs
    const std::string run = folder / std::to_string(question);
    int asked = 0;
    {
      const Check check([&] { return ++asked >= question; });
      nn::Sequential model = small_network();
      const train::History history = train::fit(model, points(200, 1), in(run));
      EXPECT_TRUE(history.interrupted) << question;
      EXPECT_EQ(history.signal, SIGINT);
    }
    expect_resumes(run, want, straight);
  }
}

TEST(Host, KeepsItsHandlers) {
  const auto old = std::signal(SIGINT, SIG_IGN);
  const Check check([] { return false; });
  nn::Sequential model = small_network();
  train::FitOptions options = in("");
  options.callbacks = {train::each_step([](train::Session&) {
    const auto found = std::signal(SIGINT, SIG_IGN);
    EXPECT_EQ(found, SIG_IGN);
  })};
  train::fit(model, points(100, 1), options);
  std::signal(SIGINT, old);
}

TEST(Host, EndsOtherWorkWithAnException) {
  nn::Sequential model = small_network();
  const data::Dataset set = points(200, 1);
  model.build({8});
  const Tensor before = model.variable("0.weight").value().eval();
  const Check check([] { return true; });
  EXPECT_THROW(train::evaluate(model, set), Interrupted);
  EXPECT_THROW(train::predict(model, set), Interrupted);
  EXPECT_THROW(train::predict(model, ones({4, 8})), Interrupted);
  EXPECT_THROW(train::find_rate(model, set), Interrupted);
  EXPECT_TRUE(same_bits(before, model.variable("0.weight").value()));
}

TEST(Host, ACallbackThatThrowsLeavesTheRunSaved) {
  const Folder folder;
  nn::Sequential straight = small_network();
  const train::History want = train::fit(straight, points(200, 1), in(folder / "straight"));
  const auto broken = [](std::int64_t step) {
    return [step](train::Session& session) {
      if (session.step() == step) throw std::runtime_error("broken");
    };
  };
  for (const std::int64_t step : {1, 7, 8, 14}) {  // 7 batches an epoch
    for (const bool of_epochs : {false, true}) {
      if (of_epochs && step % 7 != 0) continue;
      const std::string run = folder / (std::to_string(step) + (of_epochs ? "e" : "s"));
      nn::Sequential model = small_network();
      train::FitOptions options = in(run);
      options.callbacks = {of_epochs ? train::each_epoch(broken(step)) : train::each_step(broken(step))};
      EXPECT_THROW(train::fit(model, points(200, 1), options), std::runtime_error);
      expect_resumes(run, want, straight);
    }
  }
}

TEST(Host, GetsProgressInsteadOfStandardError) {
  nn::Sequential model = small_network();
  std::vector<std::pair<std::string, bool>> lines;
  train::FitOptions options = in("");
  options.verbosity = train::Verbosity::automatic;
  options.progress = [&](const std::string& line, bool kept) { lines.emplace_back(line, kept); };
  train::fit(model, points(100, 1), options);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].first.starts_with("epoch 1/3") && lines[0].second);
  lines.clear();
  options.verbosity = train::Verbosity::bar;
  train::fit(model, points(100, 1), options);
  EXPECT_FALSE(lines.front().second);  // the bar of the first epoch, which the next line replaces
  EXPECT_TRUE(lines.back().second);
  EXPECT_EQ(lines.back().first.find('\n'), std::string::npos);
}

TEST(Host, DrawsCurves) {
  nn::Sequential model = small_network();
  const std::vector<std::string> curves = train::curves_svg(train::fit(model, points(100, 1), in("")));
  ASSERT_EQ(curves.size(), 3u);  // loss, accuracy, rate
  EXPECT_NE(curves[1].find("accuracy"), std::string::npos);
}

}  // namespace
}  // namespace varve
