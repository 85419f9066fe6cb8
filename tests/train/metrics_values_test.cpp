// Metrics. Expected numbers: counted by hand, or scikit-learn 1.x (precision, recall, F1, confusion matrix, ROC AUC).
#include <gtest/gtest.h>

#include <cmath>

#include "varve/compile.h"
#include "varve/ops.h"
#include "varve/train/metrics.h"

namespace varve::train {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Ints32 = std::vector<std::int32_t>;

Tensor metric_logits() { return tensor(Floats{2, -1, 0.5, 0, 3, -2, 1.5, 1, -0.5, -1, 0.25, 0.75}, {4, 3}); }
Tensor metric_classes() { return tensor(Ints32{0, 2, 1, 2}); }

// What the caller does: sums in double over batches.
double value(const Metric& metric, const std::vector<std::pair<Tensor, Tensor>>& batches) {
  Doubles sums;
  for (const auto& [output, target] : batches) {
    const Tensor part = metric.sums(output, target);
    EXPECT_EQ(part.dtype(), f32);
    EXPECT_EQ(part.rank(), 1);
    const Doubles values = part.to_vector<double>();
    sums.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
  }
  return metric.value(sums);
}

TEST(Metrics, AccuracyIsTheShareOfLargestLogits) {
  EXPECT_EQ(accuracy().sums(metric_logits(), metric_classes()).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(accuracy().sums(metric_logits().to(bf16), metric_classes().to(i64)).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(accuracy().sums(metric_logits().reshape({2, 2, 3}), metric_classes().reshape({2, 2})).to_vector<float>(),
            (Floats{2, 4}));
  // Soft targets: the largest of both.
  const Tensor soft = tensor(Floats{0.6f, 0.3f, 0.1f, 0, 0.4f, 0.6f, 0.9f, 0, 0.1f, 0, 0.9f, 0.1f}, {4, 3});
  EXPECT_EQ(accuracy().sums(metric_logits(), soft).to_vector<float>(), (Floats{2, 4}));
  EXPECT_DOUBLE_EQ(
      value(accuracy(), {{metric_logits(), metric_classes()}, {metric_logits(), tensor(Ints32{0, 1, 0, 2})}}), 0.75);
  EXPECT_TRUE(std::isnan(accuracy().value({0, 0})));
}

TEST(Metrics, TopKCountsWhatStandsBefore) {
  const Tensor z = tensor(Floats{5, 4, 3, 2, 1, 1, 2, 3, 4, 5}, {2, 5});
  const Tensor t = tensor(Ints32{2, 1});  // third of five, fourth of five
  const double expected[] = {0, 0, 0.5, 1, 1};
  for (int k = 1; k <= 5; ++k) EXPECT_DOUBLE_EQ(value(top_k_accuracy(k), {{z, t}}), expected[k - 1]) << k;
  EXPECT_EQ(top_k_accuracy(3).name, "top3");
  EXPECT_THROW(top_k_accuracy(0), Error);
}

TEST(Metrics, TopKOfEqualLogitsIsWhatArgmaxSays) {
  const Tensor z = zeros({4, 4});
  const Tensor t = tensor(Ints32{0, 1, 2, 3});
  EXPECT_DOUBLE_EQ(value(top_k_accuracy(1), {{z, t}}), value(accuracy(), {{z, t}}));
  EXPECT_DOUBLE_EQ(value(top_k_accuracy(2), {{z, t}}), 0.5);
}

TEST(Metrics, TopKOfNotANumberIsNeverRight) {
  const Tensor z = full({1, 4}, std::nan(""));
  EXPECT_DOUBLE_EQ(value(top_k_accuracy(2), {{z, tensor(Ints32{0})}}), 0);
}

const Ints32 kActual = {0, 0, 0, 1, 1, 2, 2, 2, 2, 0}, kPredicted = {0, 1, 0, 1, 1, 2, 0, 2, 2, 0};

TEST(Metrics, ConfusionHasTrueClassesAsRows) {
  const Tensor output = one_hot(tensor(kPredicted), 3), target = tensor(kActual);
  EXPECT_EQ(confusion(3).sums(output, target).to_vector<float>(), (Floats{3, 1, 0, 0, 2, 0, 1, 0, 3}));
  EXPECT_DOUBLE_EQ(value(confusion(3), {{output, target}}), 0.8);
  EXPECT_THROW(confusion(4).sums(output, target), Error);
  EXPECT_THROW(confusion(0), Error);
  EXPECT_THROW(confusion(1 << 20), Error);
}

TEST(Metrics, MacroAverages) {
  const Tensor output = one_hot(tensor(kPredicted), 3), target = tensor(kActual);
  EXPECT_NEAR(value(precision(), {{output, target}}), 0.8055555555555555, 1e-12);
  EXPECT_NEAR(value(recall(), {{output, target}}), 0.8333333333333334, 1e-12);
  EXPECT_NEAR(value(f1(), {{output, target}}), 0.8023809523809523, 1e-12);
  // A class that neither occurs nor is predicted has no part in the average.
  EXPECT_NEAR(value(f1(), {{one_hot(tensor(kPredicted), 5), target}}), 0.8023809523809523, 1e-12);
}

TEST(Metrics, OneLogitDecidesBetweenTwoClasses) {
  const Tensor z = tensor(Floats{2, -1, 3, -4}, {4, 1});
  const Tensor t = tensor(Ints32{1, 1, 0, 0});
  EXPECT_EQ(confusion(2).sums(z, t).to_vector<float>(), (Floats{1, 1, 1, 1}));
  EXPECT_EQ(confusion(2).sums(z.reshape({4}), t.to(f32)).to_vector<float>(), (Floats{1, 1, 1, 1}));
  EXPECT_DOUBLE_EQ(value(precision(), {{z, t}}), 0.5);
  EXPECT_DOUBLE_EQ(value(binary_accuracy(), {{z, t}}), 0.5);
  EXPECT_DOUBLE_EQ(value(binary_accuracy(), {{z, tensor(Floats{1, 0, 1, 1})}}), 0.75);
}

TEST(Metrics, ClassScores) {
  const std::vector<ClassScores> scores = class_scores({3, 1, 0, 0, 2, 0, 1, 0, 3}, 3);
  EXPECT_DOUBLE_EQ(scores[0].precision, 0.75);
  EXPECT_NEAR(scores[1].precision, 2.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(scores[1].recall, 1);
  EXPECT_NEAR(scores[1].f1, 0.8, 1e-12);
  EXPECT_NEAR(scores[2].f1, 0.857142857142857, 1e-12);
  EXPECT_DOUBLE_EQ(scores[2].support, 4);
  EXPECT_DOUBLE_EQ(class_scores({0, 0, 0, 0}, 2)[0].f1, 0);
  EXPECT_THROW(class_scores({1, 2, 3}, 2), Error);
}

TEST(Metrics, PerplexityIsOfTokens) {
  const Tensor z = metric_logits().reshape({2, 2, 3}), t = metric_classes().reshape({2, 2});
  EXPECT_NEAR(value(perplexity(), {{z, t}}), 5.652000095269272, 1e-5);
  // All equal logits: as many words as there are.
  EXPECT_NEAR(value(perplexity(), {{zeros({2, 3, 7}), zeros({2, 3}, i32)}}), 7, 1e-5);
  EXPECT_NEAR(value(perplexity(), {{metric_logits(), one_hot(metric_classes(), 3)}}), 5.652000095269272, 1e-5);
  EXPECT_FALSE(perplexity().higher_is_better);
}

TEST(Metrics, MeanAbsoluteError) {
  const Tensor o = tensor(Floats{1.5, -2, 0.25, 4}, {4, 1});
  EXPECT_DOUBLE_EQ(value(mean_absolute_error(), {{o, tensor(Ints32{1, 0, 0, 1})}}), 1.4375);
  EXPECT_FALSE(mean_absolute_error().higher_is_better);
}

const Doubles kScores = {.1, .4, .35, .8, .35, .9, .5, .2};
const std::vector<int> kLabels = {0, 0, 1, 1, 0, 1, 0, 0};

TEST(Metrics, ExactAreaCountsEqualScoresHalf) {
  EXPECT_NEAR(auc(kScores, kLabels), 0.8333333333333333, 1e-12);
  EXPECT_DOUBLE_EQ(auc({1, 1, 1, 1}, {0, 1, 0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(auc({1, 2, 3, 4}, {0, 0, 1, 1}), 1);
  EXPECT_TRUE(std::isnan(auc({1, 2}, {1, 1})));
  EXPECT_THROW(auc({1, 2}, {1}), Error);
  EXPECT_THROW(auc({1, std::nan("")}, {1, 0}), Error);
}

TEST(Metrics, BinnedAreaOfOneLogitOrTwo) {
  Floats one, two;
  for (const double p : kScores) {
    const double z = std::log(p / (1 - p));
    one.push_back(static_cast<float>(z));
    two.insert(two.end(), {1.f, static_cast<float>(z + 1)});
  }
  const Tensor labels = tensor(Ints32(kLabels.begin(), kLabels.end()));
  EXPECT_NEAR(value(auc(), {{tensor(one, {8, 1}), labels}}), 0.8333333333333333, 1e-9);
  EXPECT_NEAR(value(auc(), {{tensor(one), labels.to(f32)}}), 0.8333333333333333, 1e-9);
  EXPECT_NEAR(value(auc(), {{tensor(two, {8, 2}), labels}}), 0.8333333333333333, 1e-9);
  EXPECT_NEAR(value(auc(), {{tensor(two, {8, 2}), one_hot(labels, 2)}}), 0.8333333333333333, 1e-9);
  const Tensor wild = tensor(Floats{1e30f, -1e30f, std::nanf("")});
  EXPECT_DOUBLE_EQ(value(auc(), {{wild, tensor(Ints32{1, 0, 0})}}), 1);
}

TEST(Metrics, SumsBelongToTheStepsProgram) {
  for (const char* name : {"accuracy", "top2", "f1", "perplexity", "auc"}) {
    const Metric metric = metric_by_name(name);
    const Tensor z = std::string(name) == "auc" ? metric_logits().slice({{}, {0, 2}}) : metric_logits();
    const Tensor t = minimum(metric_classes(), 1);
    auto program = compile([&](Tensor a, Tensor b) { return metric.sums(a, b); });
    EXPECT_EQ(program(z, t).to_vector<float>(), metric.sums(z, t).to_vector<float>()) << name;
  }
}

TEST(Metrics, ByName) {
  for (const char* name : {"accuracy", "binary_accuracy", "precision", "recall", "f1", "auc", "perplexity",
                           "mean_absolute_error", "top5", "top1", "top10"})
    EXPECT_EQ(metric_by_name(name).name, name);
  for (const char* name : {"top", "top0", "top-1", "top5x", "top99999999999999999999"})
    EXPECT_THROW(metric_by_name(name), Error) << name;
  try {
    metric_by_name("acuracy");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Did you mean 'accuracy'?"), std::string::npos) << error.what();
  }
}

TEST(Metrics, WhatFitsTheLoss) {
  const auto first = [](const char* loss, const TensorType& target) {
    const std::vector<Metric> fitting = metrics_for(loss, target);
    return fitting.empty() ? "" : fitting[0].name;
  };
  EXPECT_EQ(first("cross_entropy", {i32, {}}), "accuracy");
  EXPECT_EQ(first("cross_entropy", {i64, {1}}), "accuracy");
  EXPECT_EQ(first("cross_entropy", {f32, {10}}), "accuracy");
  EXPECT_EQ(first("cross_entropy", {i32, {20}}), "perplexity");
  EXPECT_EQ(first("smoothed_cross_entropy", {i32, {}}), "accuracy");
  EXPECT_EQ(first("binary_cross_entropy", {i32, {}}), "binary_accuracy");
  EXPECT_EQ(first("huber", {f32, {}}), "mean_absolute_error");
  EXPECT_EQ(first("my_own", {f32, {}}), "");
}

TEST(MeanIou, IsOverTheClassesThatOccur) {
  // A picture of 1 × 4 pixels: classes 0 0 1 1, taken for 0 1 1 1; class 2 is nowhere.
  const Tensor output = one_hot(tensor(std::vector<std::int32_t>{0, 1, 1, 1}), 3).reshape({1, 1, 4, 3});
  const Tensor target = tensor(std::vector<std::int32_t>{0, 0, 1, 1}).reshape({1, 1, 4});
  EXPECT_NEAR(mean_iou().value(mean_iou().sums(output, target).to_vector<double>()), (0.5 + 2.0 / 3) / 2, 1e-12);
  EXPECT_EQ(metrics_for("cross_entropy", {i32, {8, 8}}).back().name, "mean_iou");
  EXPECT_EQ(metrics_for("detection", {f32, {16, 5}}).front().name, "map50");
}

}  // namespace
}  // namespace varve::train
