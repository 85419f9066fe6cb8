#include <gtest/gtest.h>

#include "varve/data.h"

namespace varve::data {
namespace {

std::string refusal(const std::string& name, const TransformOptions& options = {}) {
  try {
    transform_by_name(name, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(TransformNames, AllCanBeMadeWithTheirDefaults) {
  EXPECT_EQ(transform_names(),
            (std::vector<std::string>{"crop", "flip", "rotate", "scale", "cutout", "jitter", "noise"}));
  for (const std::string& name : transform_names()) {
    EXPECT_EQ(transform_by_name(name).name, name);
    EXPECT_EQ(transform_by_name(name, transform_options_of(name)).name, name);
  }
  EXPECT_EQ(transform_options_of("crop"), (TransformOptions{{"padding", 4}}));
  EXPECT_EQ(transform_options_of("flip"), TransformOptions{});
}

TEST(TransformNames, OptionsReachTheTransform) {
  std::vector<float> pixels(9, 1), scratch(9);
  Image image{pixels, scratch, 3, 3, 1};
  Random random(1, 0, 0);
  transform_by_name("cutout", {{"size", 100}}).apply(image, random);
  EXPECT_EQ(pixels, std::vector<float>(9, 0));
  EXPECT_NE(refusal("scale", {{"low", 5}, {"high", 2}}), "accepted");
  EXPECT_NE(refusal("scale", {{"low", 5}}), "accepted");  // above the default of high
}

TEST(TransformNames, SlipsAreAnsweredWithTheNearestName) {
  EXPECT_NE(refusal("rotat").find("Did you mean 'rotate'?"), std::string::npos) << refusal("rotat");
  EXPECT_NE(refusal("crop", {{"pading", 2}}).find("Did you mean 'padding'?"), std::string::npos);
  EXPECT_NE(refusal("flip", {{"share", 2}}).find("There are none"), std::string::npos);
  EXPECT_NE(refusal("crop", {{"padding", 1.5}}).find("whole number"), std::string::npos);
  EXPECT_NE(refusal("crop", {{"padding", -1}}).find("0 pixels or more"), std::string::npos);
  EXPECT_THROW(transform_options_of("swirl"), Error);
}

}  // namespace
}  // namespace varve::data
