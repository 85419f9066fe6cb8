// Every network takes training steps that lower the loss of a fixed batch: small by default, at its full size when
// VARVE_TEST_FULL=1.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "zoo/small.h"

namespace varve::zoo_tests {
namespace {

// Narrow where the width matters to the time and not to the wiring.
const std::map<std::string, Sizes>& narrow() {
  static const std::map<std::string, Sizes> sizes = {
      {"fcn5", {{"width", 64}, {"classes", 64}}},
      {"fcn8", {{"width", 64}, {"classes", 64}}},
      {"alexnet", {{"width", 4}}},
      {"overfeat", {{"width", 4}}},
      {"vgg11", {{"width", 8}}},
      {"vgg13", {{"width", 8}}},
      {"vgg16", {{"width", 8}}},
      {"vgg19", {{"width", 8}}},
      {"vgg16-cifar", {{"width", 8}}},
      {"vgg16-bn-cifar", {{"width", 8}}},
      {"resnet18", {{"width", 8}}},
      {"resnet34", {{"width", 8}}},
      {"resnet50", {{"width", 8}}},
      {"resnet101", {{"width", 4}}},
      {"resnet152", {{"width", 4}}},
      {"xception", {{"middle", 1}}},
      {"mobilenet1", {{"multiplier", 0.25}}},
      {"mobilenet2", {{"multiplier", 0.25}}},
      {"densenet121", {{"growth", 4}}},
  };
  return sizes;
}

Case small_case(const zoo::Entry& entry) {
  Case c = {.input = entry.smallest.rank() ? entry.smallest : entry.input};
  if (const auto found = narrow().find(entry.name); found != narrow().end()) c.sizes = found->second;
  if (entry.classes == 1000) c.sizes["classes"] = 10;
  const bool language = entry.dtype == i32 && entry.classes == 10000;
  if (language) c.sizes = {{"vocabulary", 100}, {"width", 32}};
  if (entry.dtype == i32) c.rate = 3e-3;
  // Batch norms over hundreds of layers need more than the one pixel that the smallest input leaves them.
  if (entry.name == "resnet101" || entry.name == "resnet152") c.input = {64, 64, 3};
  return c;
}

void expect_learns(const std::vector<float>& losses) {
  for (const float loss : losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_LT(losses.back(), losses.front()) << testing::PrintToString(losses);
}

class Steps : public testing::TestWithParam<std::string> {};

TEST_P(Steps, LowerTheLoss) {
  const zoo::Entry& entry = zoo::find(GetParam());
  expect_learns(train(entry, small_case(entry), 4));
}

class Steps_Full : public testing::TestWithParam<std::string> {};

TEST_P(Steps_Full, LowerTheLoss) {
  const char* full = std::getenv("VARVE_TEST_FULL");
  if (!full || std::string(full) != "1")
    GTEST_SKIP() << "full size takes minutes and gigabytes: set VARVE_TEST_FULL=1 to run it";
  const zoo::Entry& entry = zoo::find(GetParam());
  expect_learns(train(entry, {.input = entry.input, .batch = 2, .rate = entry.dtype == i32 ? 3e-3 : 1e-4}, 3));
}

INSTANTIATE_TEST_SUITE_P(Zoo, Steps, testing::ValuesIn(names()), test_name);
INSTANTIATE_TEST_SUITE_P(Zoo, Steps_Full, testing::ValuesIn(names()), test_name);

}  // namespace
}  // namespace varve::zoo_tests
