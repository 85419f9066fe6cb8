// The samples that a network understands least, as its page shows them.
#include <gtest/gtest.h>

#include "fit_helpers.h"
#include "text_checks.h"
#include "train/report.h"
#include "varve/io.h"

namespace varve {
namespace {

using namespace train_tests;

// One column is the class; `wrong` says otherwise of one sample.
data::Dataset squares(std::int64_t count, std::int64_t wrong) {
  std::vector<float> pixels(static_cast<std::size_t>(count) * 8 * 8);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto kind = static_cast<std::int32_t>(i % 2);
    for (std::size_t p = 0; p < 64; ++p) pixels[static_cast<std::size_t>(i) * 64 + p] = kind ? 1.f : 0.f;
    labels.push_back(i == wrong ? 1 - kind : kind);
  }
  return data::from_tensors(tensor(pixels, {count, 8, 8, 1}), tensor(labels),
                            {.name = "squares", .classes = {"dark", "<light>"}, .vocabulary = nullptr});
}

TEST(WorstSamples, ShowTheMislabelledPictureFirst) {
  auto model = nn::sequential(nn::flatten(), nn::dense(2));
  train::fit(model, squares(64, -1), {.epochs = 20, .verbosity = train::Verbosity::quiet});
  const data::Dataset held_out = squares(40, 7);
  const std::vector<train::WorstSample> worst = train::worst_samples(model, held_out, train::cross_entropy);
  ASSERT_EQ(worst.size(), 12u);
  EXPECT_EQ(worst[0].truth, "dark");
  EXPECT_TRUE(worst[0].predicted.starts_with("<light> (")) << worst[0].predicted;
  EXPECT_GT(worst[0].loss, worst[1].loss);
  EXPECT_TRUE(worst[0].png.starts_with("iVBORw0KGgo"));  // a PNG file
  const std::string page = train::report_html({.title = "t", .worst = worst});
  EXPECT_TRUE(test::contains(page, "Worst predictions"));
  EXPECT_TRUE(test::contains(page, "true <b>dark</b>, predicted <b>&lt;light&gt; ("));
  EXPECT_TRUE(test::contains(page, "data:image/png;base64,iVBORw0KGgo"));
  EXPECT_EQ(test::occurrences(page, "<figure>"), 12u);
  EXPECT_FALSE(test::contains(train::report_html({.title = "t"}), "Worst predictions"));
}

TEST(WorstSamples, OfNumbersAndOfWhatHasNone) {
  const Tensor x = tensor(std::vector<float>{1, 2, 3, 4}, {4, 1});
  const Tensor y = tensor(std::vector<float>{1, 2, 30, 4}, {4, 1});
  auto model = nn::sequential(nn::dense(1));
  model.build({1});
  model.variable("0.weight").assign(tensor(std::vector<float>{1}, {1, 1}));
  const std::vector<train::WorstSample> worst = train::worst_samples(model, data::from_tensors(x, y), train::mse);
  ASSERT_EQ(worst.size(), 4u);
  EXPECT_EQ(worst[0].truth, "30");
  EXPECT_EQ(worst[0].predicted, "3");
  EXPECT_EQ(worst[0].text, "3");
  EXPECT_DOUBLE_EQ(worst[0].loss, 729);
  EXPECT_TRUE(train::worst_samples(model, data::from_tensors(x, x), train::reconstruction).empty());
}

}  // namespace
}  // namespace varve
