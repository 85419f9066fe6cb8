#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "data/transforms.h"

namespace varve::data {
namespace {

using Pixels = std::vector<float>;

struct Picture {
  Pixels pixels;
  std::int64_t height, width, channels = 1;
  Pixels scratch = Pixels(pixels.size());
  Image image() { return {pixels, scratch, height, width, channels}; }
};

Pixels shifted(Picture picture, std::int64_t down, std::int64_t right) {
  Image image = picture.image();
  shift(image, down, right);
  return picture.pixels;
}

Pixels resampled(Picture picture, const Turn& turn) {
  Image image = picture.image();
  resample(image, turn);
  return picture.pixels;
}

Pixels after(const Transform& transform, Picture picture, std::uint64_t index = 0) {
  Image image = picture.image();
  Random random(1, 0, index);
  transform.apply(image, random);
  return picture.pixels;
}

// Every result that a transform gives in 200 tries.
std::set<Pixels> results(const Transform& transform, const Picture& picture) {
  std::set<Pixels> all;
  for (std::uint64_t i = 0; i < 200; ++i) all.insert(after(transform, picture, i));
  return all;
}

const Picture kThree{{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3};

TEST(Transform, ShiftMovesAndFillsWithZeros) {
  EXPECT_EQ(shifted(kThree, 0, 0), kThree.pixels);
  EXPECT_EQ(shifted(kThree, 1, 0), (Pixels{4, 5, 6, 7, 8, 9, 0, 0, 0}));
  EXPECT_EQ(shifted(kThree, -1, 0), (Pixels{0, 0, 0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(shifted(kThree, 0, 1), (Pixels{2, 3, 0, 5, 6, 0, 8, 9, 0}));
  EXPECT_EQ(shifted(kThree, 0, -1), (Pixels{0, 1, 2, 0, 4, 5, 0, 7, 8}));
  EXPECT_EQ(shifted(kThree, -1, 2), (Pixels{0, 0, 0, 3, 0, 0, 6, 0, 0}));
  EXPECT_EQ(shifted(kThree, 2, -2), (Pixels{0, 0, 7, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(shifted(kThree, 3, 0), Pixels(9, 0));
  EXPECT_EQ(shifted(kThree, 0, -100), Pixels(9, 0));
  EXPECT_EQ(shifted({{1, 2, 3, 4}, 1, 2, 2}, 0, 1), (Pixels{3, 4, 0, 0}));
  EXPECT_EQ(shifted({{1, 2, 3, 4}, 1, 2, 2}, 0, -1), (Pixels{0, 0, 1, 2}));
}

TEST(Transform, CropIsAnyShiftWithinThePadding) {
  std::set<Pixels> expected;
  for (std::int64_t down = -1; down <= 1; ++down)
    for (std::int64_t right = -1; right <= 1; ++right) expected.insert(shifted(kThree, down, right));
  EXPECT_EQ(expected.size(), 9u);
  EXPECT_EQ(results(random_crop(1), kThree), expected);
  EXPECT_EQ(results(random_crop(0), kThree), std::set<Pixels>{kThree.pixels});
}

TEST(Transform, FlipTurnsRowsAroundEverySecondTime) {
  EXPECT_EQ(results(random_flip(), kThree), (std::set<Pixels>{kThree.pixels, {3, 2, 1, 6, 5, 4, 9, 8, 7}}));
  EXPECT_EQ(results(random_flip(), {{1, 2, 3, 4, 5, 6}, 1, 2, 3}),
            (std::set<Pixels>{{1, 2, 3, 4, 5, 6}, {4, 5, 6, 1, 2, 3}}));
  int flipped = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) flipped += after(random_flip(), kThree, i) != kThree.pixels;
  EXPECT_NEAR(flipped, 500, 80);
}

TEST(Transform, ResampleReadsBetweenPixels) {
  EXPECT_EQ(resampled(kThree, {1, 0, 0, 1}), kThree.pixels);
  // A quarter turn: what was at (right, -down) comes to (down, right).
  EXPECT_EQ(resampled(kThree, {0, 1, -1, 0}), (Pixels{3, 6, 9, 2, 5, 8, 1, 4, 7}));
  EXPECT_EQ(resampled(kThree, {-1, 0, 0, -1}), (Pixels{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  // Twice as large: half steps from the middle.
  EXPECT_EQ(resampled(kThree, {0.5, 0, 0, 0.5}), (Pixels{3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7}));
  // Half as large: all but the middle lies outside.
  EXPECT_EQ(resampled(kThree, {2, 0, 0, 2}), (Pixels{0, 0, 0, 0, 5, 0, 0, 0, 0}));
  // 1.25 pixels left of the middle: three quarters of the first column, the rest beyond the edge.
  EXPECT_EQ(resampled(kThree, {1, 0, 0, 1.25})[0], 0.75f * 1);
  EXPECT_EQ(resampled({{1, 10, 2, 20, 3, 30}, 1, 3, 2}, {1, 0, 0, 0.5}), (Pixels{1.5, 15, 2, 20, 2.5, 25}));
}

TEST(Transform, RotateAndScaleStayWithinTheirLimits) {
  EXPECT_EQ(after(random_rotate(0), kThree), kThree.pixels);
  EXPECT_EQ(after(random_scale(1, 1), kThree), kThree.pixels);
  EXPECT_EQ(after(random_scale(2, 2), kThree), resampled(kThree, {0.5, 0, 0, 0.5}));
  // (0, 1) of the corner picture moves along sin of the angle: at most sin 10° of the corner's light arrives there.
  const Picture corner{{1, 0, 0, 0, 0, 0, 0, 0, 0}, 3, 3};
  float most = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Pixels turned = after(random_rotate(10), corner, i);
    most = std::max({most, turned[1], turned[3]});
    EXPECT_EQ(std::min(turned[1], turned[3]), 0) << "turned both ways";
  }
  EXPECT_LE(most, std::sin(10 * M_PI / 180));
  EXPECT_GT(most, std::sin(8 * M_PI / 180) * std::cos(10 * M_PI / 180) - 0.03);
}

TEST(Transform, CutoutErasesOneSquare) {
  const Picture ones{Pixels(25, 1), 5, 5};
  std::set<int> erased;
  for (const Pixels& pixels : results(cutout(3), ones)) {
    const int zeros = static_cast<int>(std::count(pixels.begin(), pixels.end(), 0.f));
    erased.insert(zeros);
    EXPECT_EQ(zeros + std::count(pixels.begin(), pixels.end(), 1.f), 25);
  }
  EXPECT_EQ(erased, (std::set<int>{4, 6, 9}));  // in a corner, at an edge, inside
  EXPECT_EQ(results(cutout(3), ones).size(), 25u);
  EXPECT_EQ(after(cutout(0), ones), ones.pixels);
  EXPECT_EQ(after(cutout(100), ones), Pixels(25, 0));
}

TEST(Transform, JitterScalesLightAndContrast) {
  const Picture grey{{0.2f, 0.4f, 0.6f, 0.4f}, 2, 2};
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Pixels bright = after(jitter(0.5, 0), grey, i);
    const float factor = bright[0] / 0.2f;
    EXPECT_TRUE(factor >= 0.5f && factor <= 1.5f) << factor;
    EXPECT_NEAR(bright[2], 0.6f * factor, 1e-6);
    const Pixels apart = after(jitter(0, 0.5), grey, i);
    EXPECT_NEAR(std::accumulate(apart.begin(), apart.end(), 0.f), 1.6f, 1e-5);
    const float contrast = (apart[2] - apart[0]) / 0.4f;
    EXPECT_TRUE(contrast >= 0.499f && contrast <= 1.501f) << contrast;
    EXPECT_NEAR(apart[0], 0.4f - 0.2f * contrast, 1e-6);
  }
  for (const Pixels& pixels : results(jitter(1, 1), {{0, 1, 1, 1}, 2, 2}))
    for (const float pixel : pixels) EXPECT_TRUE(pixel >= 0 && pixel <= 1) << pixel;
}

TEST(Transform, NoiseHasItsDeviation) {
  const Pixels noisy = after(noise(0.1), {Pixels(10000, 0.5f), 100, 100});
  double sum = 0, squares = 0;
  for (const float pixel : noisy) {
    sum += pixel - 0.5;
    squares += (pixel - 0.5) * (pixel - 0.5);
  }
  EXPECT_NEAR(sum / 10000, 0, 0.005);
  EXPECT_NEAR(std::sqrt(squares / 10000), 0.1, 0.004);
}

TEST(Transform, NormalizeWorksByChannel) {
  EXPECT_EQ(after(normalize({1}, {2}), {{1, 3, 5, 7}, 1, 2, 2}), (Pixels{0, 1, 2, 3}));
  EXPECT_EQ(after(normalize({1, 3}, {2, 4}), {{1, 3, 5, 7}, 1, 2, 2}), (Pixels{0, 0, 2, 1}));
  EXPECT_THROW(after(normalize({1, 2, 3}, {1, 1, 1}), {{1, 3, 5, 7}, 1, 2, 2}), Error);
}

TEST(Transform, IsTheSameForTheSameSample) {
  const Picture picture{Pixels(49, 0.5f), 7, 7};
  for (const std::string& name : transform_names()) {
    const Transform transform = transform_by_name(name);
    for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(after(transform, picture, i), after(transform, picture, i)) << name;
  }
}

TEST(Transform, BadOptionsAreRefused) {
  EXPECT_THROW(random_crop(-1), Error);
  EXPECT_THROW(random_crop(INT64_MAX), Error);
  EXPECT_THROW(random_rotate(NAN), Error);
  EXPECT_THROW(random_rotate(-1), Error);
  EXPECT_THROW(random_scale(0, 1), Error);
  EXPECT_THROW(random_scale(2, 1), Error);
  EXPECT_THROW(cutout(-1), Error);
  EXPECT_THROW(jitter(-0.1, 0), Error);
  EXPECT_THROW(jitter(0, 2), Error);
  EXPECT_THROW(noise(INFINITY), Error);
  EXPECT_THROW(normalize({}, {}), Error);
  EXPECT_THROW(normalize({1, 2}, {1}), Error);
  EXPECT_THROW(normalize({0}, {0}), Error);
}

// Pictures whose targets are their own pixels, as class numbers and as numbers.
Dataset segmented(DType dtype) {
  std::vector<float> values;
  for (int i = 0; i < 4 * 8 * 8; ++i) values.push_back(static_cast<float>(1 + i * 7 % 61));
  const Tensor x = tensor(values, {4, 8, 8, 1});
  return from_tensors(x, x.reshape({4, 8, 8}).to(dtype), {.name = "maps"});
}

TEST(PixelTargets, MoveWithTheirPixels) {
  for (const DType dtype : {i32, f32}) {
    const Dataset set = segmented(dtype);
    int moved = 0;
    for (const Transform& transform : {random_flip(), random_crop(3)}) {
      const Dataset changed = set.map({transform});
      for (std::int64_t i = 0; i < set.size(); ++i) {
        const auto [x, y] = changed.at(i);
        EXPECT_EQ(x.to_vector<float>(), y.to(f32).to_vector<float>()) << transform.name << ' ' << i;
        moved += x.to_vector<float>() != set.at(i).first.to_vector<float>() ? 1 : 0;
      }
    }
    EXPECT_GT(moved, 3);
  }
}

// Turned and scaled, classes are those of the nearest pixel: none arises that was not there.
TEST(PixelTargets, AreNeverMixed) {
  const std::vector<float> left_right = [] {
    std::vector<float> values;
    for (int i = 0; i < 16 * 16; ++i) values.push_back(i % 16 < 8 ? 1.f : 5.f);
    return values;
  }();
  const Tensor x = tensor(left_right, {1, 16, 16, 1});
  const Dataset set = from_tensors(x, x.reshape({1, 16, 16}).to(i32));
  for (const Transform& transform : {random_rotate(40), random_scale(1.5, 2)}) {
    const auto [image, classes] = set.map({transform}).at(0);
    const std::vector<std::int32_t> labels = classes.to_vector<std::int32_t>();
    const std::vector<float> pixels = image.to_vector<float>();
    EXPECT_EQ(std::set<std::int32_t>(labels.begin(), labels.end()).count(5), 1u);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      EXPECT_TRUE(labels[i] == 0 || labels[i] == 1 || labels[i] == 5) << labels[i];
      if (pixels[i] == 1.f || pixels[i] == 5.f) {
        EXPECT_EQ(static_cast<float>(labels[i]), pixels[i]) << transform.name;
      }
    }
  }
}

TEST(PixelTargets, StayWhereOnlyColoursChange) {
  const Dataset set = segmented(i32);
  const auto changed = set.map({noise(0.5), cutout(4), normalize({0.5}, {2})}).at(1);
  EXPECT_EQ(changed.second.to_vector<int>(), set.at(1).second.to_vector<int>());
  EXPECT_NE(changed.first.to_vector<float>(), set.at(1).first.to_vector<float>());
}

TEST(PixelTargets, OwnTransformsMustSayWhatTheyDo) {
  const Dataset set = segmented(f32);
  const auto nothing = [](Image&, Random&) {};
  try {
    set.map({{.name = "swirl", .apply = nothing}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("swirl moves pixels, and its targets, f32 [8, 8], are of each pixel"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NO_THROW(set.map({{.name = "swirl", .apply = nothing, .to_targets = nothing}}));
  EXPECT_NO_THROW(set.map({{.name = "tint", .apply = nothing, .moves = false}}));
}

}  // namespace
}  // namespace varve::data
