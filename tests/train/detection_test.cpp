// Boxes: a loss that is least where they are, how well they are found, and what comes of an output.
#include "varve/train/detection.h"

#include <gtest/gtest.h>

#include <cmath>

#include "varve/autodiff.h"
#include "varve/ops.h"
#include "varve/optim.h"

namespace varve::train {
namespace {

constexpr std::int64_t kGridSide = 4, kKinds = 2;

// Two pictures: the first with a box of class 1 and one of class 0, the second with none.
Tensor two_targets() {
  return tensor(std::vector<float>{1,  0.1f, 0.1f, 0.5f, 0.5f, 0,  0.6f, 0.5f, 1, 0.9f,  //
                                   -1, 0,    0,    0,    0,    -1, 0,    0,    0, 0},
                {2, 2, 5});
}

double logit(double share) { return std::log(share / (1 - share)); }

// An output that says just that: sure by `sure`, with these classes.
Tensor exact_output(double sure, int first_kind = 1) {
  const std::int64_t numbers = 5 + kKinds;
  std::vector<float> values(static_cast<std::size_t>(2 * kGridSide * kGridSide * numbers), 0);
  for (std::size_t cell = 0; cell < values.size(); cell += numbers) values[cell] = float(-sure);
  const auto put = [&](double left, double top, double right, double bottom, int kind) {
    const double x = (left + right) / 2 * kGridSide, y = (top + bottom) / 2 * kGridSide;
    float* cell = values.data() + (std::int64_t(y) * kGridSide + std::int64_t(x)) * numbers;
    cell[0] = float(sure);
    cell[1] = float(logit(x - std::floor(x)));
    cell[2] = float(logit(y - std::floor(y)));
    cell[3] = float(logit(right - left));
    cell[4] = float(logit(bottom - top));
    cell[5 + kind] = float(sure);
  };
  put(0.1, 0.1, 0.5, 0.5, first_kind);
  put(0.6, 0.5, 0.9999, 0.9, 0);
  return tensor(values, {2, kGridSide, kGridSide, numbers});
}

double map_of(const Tensor& output) { return map50().value(map50().sums(output, two_targets()).to_vector<double>()); }

TEST(Detection, IsLeastWhereTheBoxesAre) {
  const double right = detection(exact_output(8), two_targets()).item<float>();
  EXPECT_LT(right, 0.05);
  EXPECT_GT(detection(exact_output(8, 0), two_targets()).item<float>(), right + 3);  // the other class
  EXPECT_GT(detection(-exact_output(8), two_targets()).item<float>(), right + 10);   // the other cells
  EXPECT_EQ(map_of(exact_output(8)), 1);
  // Of class 1 nothing is found; of class 0 one that is there, and as surely one that is not.
  EXPECT_EQ(map_of(exact_output(8, 0)), 0.25);
  EXPECT_TRUE(std::isnan(map50().value(std::vector<double>(2 * 100 + 1, 0))));
  // No box at all is no division by zero.
  const Tensor none = full({1, 3, 5}, -1.0);
  EXPECT_TRUE(std::isfinite(detection(zeros({1, kGridSide, kGridSide, 7}), none).item<float>()));
}

TEST(Detection, IsLearnt) {
  Variable output("output", normal({2, kGridSide, kGridSide, 5 + kKinds}, {.seed = 3}));
  auto adam = optim::adam(0.1).over({output});
  double first = 0, last = 0;
  for (int step = 0; step < 120; ++step) {
    auto [loss, grads] = value_and_grad([&] { return detection(output, two_targets()); }, {output});
    adam.apply(grads);
    last = loss.item<float>();
    if (step == 0) first = last;
  }
  EXPECT_LT(last, first / 10);
  EXPECT_EQ(map_of(output), 1);
}

TEST(Detection, FindsBoxesOnce) {
  const auto found = find_boxes(exact_output(8));
  ASSERT_EQ(found.size(), 2u);
  ASSERT_EQ(found[0].size(), 2u);
  EXPECT_TRUE(found[1].empty());
  const FoundBox& box = found[0][0].kind == 1 ? found[0][0] : found[0][1];
  EXPECT_NEAR(box.left, 0.1, 1e-4);
  EXPECT_NEAR(box.bottom, 0.5, 1e-4);
  EXPECT_GT(box.score, 0.99);
  EXPECT_NEAR(box_overlap(box, {0, 1, 0.1, 0.1, 0.5, 0.3}), 0.5, 1e-4);
  // Four cells that all mean the box in the middle: one is kept, unless overlaps are allowed.
  const Tensor same = tensor(std::vector<float>{5, 5, 5,  5, 5, 0, 5, -5, 5,  5, 5, 0,  //
                                                5, 5, -5, 5, 5, 0, 5, -5, -5, 5, 5, 0},
                             {1, 2, 2, 6});
  EXPECT_EQ(find_boxes(same)[0].size(), 1u);
  EXPECT_EQ(find_boxes(same, {.overlap = 1})[0].size(), 4u);
  EXPECT_EQ(find_boxes(same, {.overlap = 1, .most = 2})[0].size(), 2u);
}

TEST(Detection, OfWrongShapesIsRefused) {
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message([] {
              detection(zeros({2, 7}), two_targets());
            }).find("[N, rows, columns, 5 + classes]"),
            std::string::npos);
  EXPECT_NE(message([] {
              detection(zeros({2, 4, 4, 7}), zeros({2, 3}));
            }).find("expected targets of [2, boxes, 5]"),
            std::string::npos);
  EXPECT_NE(message([] {
              find_boxes(zeros({1, 2, 2, 6}), {.score = 2});
            }).find("a score and an overlap of 0 to 1"),
            std::string::npos);
}

}  // namespace
}  // namespace varve::train
