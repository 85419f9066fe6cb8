// What a run prints: exact lines, their width, and no control characters where there is no terminal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "text_checks.h"
#include "train/progress.h"

namespace varve::train {
namespace {

using test::occurrences;

constexpr int kWide = 200;

std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}
ProgressState finished() {
  return {.epoch = 1,
          .epochs = 3,
          .done = 469,
          .steps = 469,
          .seconds = 2.9,
          .values = {{"loss", 0.3121}, {"accuracy", 0.9093}, {"val_accuracy", 0.9612}}};
}

TEST(Progress, AFinishedEpoch) {
  EXPECT_EQ(progress_text(finished(), kWide),
            "epoch 1/3 ━━━━━━━━━━━━━━━━━━━━ 469/469  2.9 s  loss 0.3121  accuracy 0.9093  val_accuracy 0.9612");
}

TEST(Progress, ARunningEpochTellsWhatIsLeft) {
  ProgressState state = finished();
  state.done = 120;
  state.left = 200;
  state.values = {{"loss", 1.5}};
  EXPECT_EQ(progress_text(state, kWide),
            "epoch 1/3 ━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 120/469  2.9 s, 3 min 20 s left in epoch  loss 1.5000");
  state.run_left = 4000;
  EXPECT_EQ(progress_text(state, kWide),
            "epoch 1/3 ━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 120/469  2.9 s, 3 min 20 s left in epoch, 1 h 7 min in run  loss 1.5000");
  state.run_left = -1;
  state.epochs = 1;
  EXPECT_EQ(progress_text(state, kWide), "epoch 1/1 ━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 120/469  2.9 s, 3 min 20 s left  loss 1.5000");
}

TEST(Progress, TheBarIsProportional) {
  for (std::int64_t done = 0; done <= 40; ++done) {
    const std::string line = progress_text({.done = done, .steps = 40}, kWide);
    EXPECT_EQ(occurrences(line, "━"), static_cast<std::size_t>(done / 2)) << line;
    EXPECT_EQ(occurrences(line, "╌"), static_cast<std::size_t>(20 - done / 2)) << line;
  }
}

TEST(Progress, NeverWiderThanTheTerminal) {
  ProgressState state = finished();
  state.values.insert(state.values.begin() + 2, {"val_loss", 0.25});
  for (int width = 0; width <= 120; ++width) {
    const std::string line = progress_text(state, width);
    EXPECT_LE(columns(line), static_cast<std::size_t>(width)) << line;
  }
  // 80 columns keep the first and the last value, which people look at.
  const std::string narrow = progress_text(state, 79);
  EXPECT_NE(narrow.find("loss 0.3121"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("val_accuracy 0.9612"), std::string::npos) << narrow;
  // The bar shrinks before a value goes.
  EXPECT_EQ(progress_text(finished(), 85),
            "epoch 1/3 ━━━━━━━━━ 469/469  2.9 s  loss 0.3121  accuracy 0.9093  val_accuracy 0.9612");
}

TEST(Progress, Durations) {
  const std::pair<double, const char*> rows[] = {{0, "0.0 s"},          {2.94, "2.9 s"},      {59.94, "59.9 s"},
                                                 {59.96, "1 min 0 s"},  {192, "3 min 12 s"},  {3599, "59 min 59 s"},
                                                 {3599.6, "1 h 0 min"}, {7500, "2 h 5 min"},  {-1, "0.0 s"},
                                                 {INFINITY, "? s"},     {std::nan(""), "? s"}};
  for (const auto& [seconds, expected] : rows) EXPECT_EQ(duration_text(seconds), expected) << seconds;
}

TEST(Progress, Values) {
  EXPECT_EQ(value_text("loss", 0.31214), "0.3121");
  EXPECT_EQ(value_text("loss", 0), "0.0000");
  EXPECT_EQ(value_text("loss", 12345.67), "12345.7");
  EXPECT_EQ(value_text("loss", 1.5e-6), "1.5e-06");
  EXPECT_EQ(value_text("loss", 3e20), "3e+20");
  EXPECT_EQ(value_text("loss", -INFINITY), "-inf");
  EXPECT_EQ(value_text("val_perplexity", 123.456), "123.46");
}

std::string printed(Verbosity verbosity) {
  testing::internal::CaptureStderr();
  ProgressLine line(verbosity, 3, 469);
  line.note("hello");
  line.begin_epoch(1);
  line.step(10, {{"loss", 1}});
  line.end_epoch(2.9, {{"loss", 0.3121}});
  return testing::internal::GetCapturedStderr();
}

TEST(Progress, LinesWithoutControlCharacters) {
  const std::string expected = "hello\nepoch 1/3 ━━━━━━━━━━━━━━━━━━━━ 469/469  2.9 s  loss 0.3121\n";
  EXPECT_EQ(printed(Verbosity::lines), expected);
  EXPECT_EQ(printed(Verbosity::automatic), expected);  // captured: not a terminal
  EXPECT_EQ(printed(Verbosity::quiet), "");
}

TEST(Progress, ABarRedrawsItsLine) {
  const std::string text = printed(Verbosity::bar);
  EXPECT_NE(text.find("\r\x1b[Khello\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\repoch 1/3 ╌"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("loss 0.3121\x1b[K\n")) << text;
}

TEST(Progress, OtherRanksAreQuiet) {
  setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  EXPECT_EQ(printed(Verbosity::automatic), "");
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_NE(printed(Verbosity::automatic), "");
  unsetenv("OMPI_COMM_WORLD_RANK");
}

}  // namespace
}  // namespace varve::train
