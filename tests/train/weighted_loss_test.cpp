// Rows that do not all count the same. Expected numbers: NumPy in float64, Σ w·loss / Σ w written out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "varve/autodiff.h"
#include "varve/train.h"

namespace varve::train {
namespace {

using Floats = std::vector<float>;
using Ints32 = std::vector<std::int32_t>;

Tensor weighted_logits() { return tensor(Floats{2, -1, 0.5, 0, 3, -2, 1.5, 1, -0.5, -1, 0.25, 0.75}, {4, 3}); }
Tensor weighted_classes() { return tensor(Ints32{0, 2, 1, 2}); }
Tensor with_ignored(int label) { return tensor(Ints32{0, label, 1, 2}); }
const std::vector<double> kClassWeights = {0.5, 2, 1};
Tensor sample_weights() { return tensor(Floats{1, 2, 0, 0.5}); }
float number(const Tensor& loss) { return loss.item<float>(); }

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(WeightedLoss, OperatorsTakeWeightsClassesAndIgnoredLabels) {
  const Tensor z = weighted_logits(), y = weighted_classes(), classes = tensor(kClassWeights);
  EXPECT_NEAR(number(varve::cross_entropy(z, y, {.class_weights = classes})), 1.747186488450209, 1e-6);
  EXPECT_NEAR(number(varve::cross_entropy(z, y, {.weights = sample_weights()})), 3.0399068585513054, 1e-6);
  for (const int label : {-1, -100, 1000}) {
    EXPECT_NEAR(number(varve::cross_entropy(z, with_ignored(label), {.ignore_index = label})), 0.6243508971117938,
                1e-6);
    EXPECT_NEAR(number(varve::cross_entropy(z, with_ignored(label), {.ignore_index = label, .class_weights = classes})),
                0.8021011321853696, 1e-6);
  }
  EXPECT_NEAR(number(varve::cross_entropy(z, y, {.reduction = Reduction::sum, .weights = sample_weights()})),
              10.639674004929569, 1e-5);
  const Tensor steps = varve::cross_entropy(z.reshape({2, 2, 3}), y.reshape({2, 2}), {.weights = tensor(Floats{1, 3})});
  EXPECT_NEAR(number(steps), 1.273940089508622, 1e-6);
  EXPECT_NEAR(number(weighted_mean(tensor(Floats{1, NAN, 3}), tensor(Floats{1, 0, 3}))), 2.5, 1e-6);
}

TEST(WeightedLoss, GradientsAreThoseOfWhatCounts) {
  const std::vector<double> expected = {-0.03062899505867489,
                                        0.005587510467241064,
                                        0.025041484591433807,
                                        0,
                                        0,
                                        0,
                                        0.32805542455296827,
                                        -0.3724528983521515,
                                        0.044397473799183185,
                                        0.027888316437808265,
                                        0.0973397888741714,
                                        -0.12522810531197967};
  const Loss loss = cross_entropy_with({.class_weights = kClassWeights, .ignore_index = -1});
  const Floats g =
      grad([&](const Tensor& z) { return loss(z, with_ignored(-1)); })(weighted_logits()).to_vector<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(g[i], expected[i], 1e-6) << i;
}

TEST(WeightedLoss, NothingThatCountsGivesZeroAndNoNaN) {
  const Tensor none = tensor(Ints32{-1, -1, -1, -1});
  const Loss loss = cross_entropy_with({.ignore_index = -1});
  EXPECT_EQ(number(loss(weighted_logits(), none)), 0);
  for (const float g : grad([&](const Tensor& z) { return loss(z, none); })(weighted_logits()).to_vector<float>())
    EXPECT_EQ(g, 0);
}

TEST(WeightedLoss, LossesOfTraining) {
  const Tensor z = weighted_logits(), y = weighted_classes();
  EXPECT_NEAR(number(cross_entropy(z, y, sample_weights())), 3.0399068585513054, 1e-6);
  EXPECT_NEAR(number(smoothed_cross_entropy(0.1)(z, y, sample_weights())), 2.9601449537894005, 1e-6);
  const Loss all = cross_entropy_with({.class_weights = kClassWeights, .ignore_index = 9});
  EXPECT_NEAR(number(all(z, with_ignored(9), sample_weights())), 0.40904788584669527, 1e-6);
  const Tensor o = tensor(Floats{1.5, -2, 0.25, 4}), t = tensor(Ints32{1, 0, 0, 1});
  EXPECT_NEAR(number(mse(o.reshape({4, 1}), t, sample_weights())), 3.642857142857143, 1e-6);
  const Loss own = {.name = "own", .function = [](const Tensor& a, const Tensor& b) { return mean(a - b); }};
  EXPECT_EQ(message([&] { own(o, o, sample_weights()); }),
            "loss \"own\": takes no weights, as it gives one mean for all. Give it `each`, the loss of each row.");
}

TEST(WeightedLoss, MetricsCountTheSameRows) {
  const Tensor z = weighted_logits(), y = weighted_classes();
  const auto value = [&](const Metric& metric) {
    return metric.value(metric.weighted(z, y, sample_weights()).to_vector<double>());
  };
  EXPECT_NEAR(value(accuracy()), 0.42857142857142855, 1e-6);  // rows 0 and 3 of weights 1, 2, 0, 0.5
  EXPECT_NEAR(value(top_k_accuracy(1)), 0.42857142857142855, 1e-6);
  EXPECT_NEAR(value(confusion(3)), 0.42857142857142855, 1e-6);
  EXPECT_NEAR(value(perplexity()), std::exp(3.0399068585513054), 1e-4);
  EXPECT_EQ(confusion(3).weighted(z, y, sample_weights()).to_vector<float>(), (Floats{1, 0, 0, 0, 0, 0, 0, 2, 0.5}));
  const Metric error = mean_absolute_error();
  EXPECT_NEAR(error.value(error.weighted(tensor(Floats{1, 2, 3, 4}), zeros({4}), sample_weights()).to_vector<double>()),
              2, 1e-6);
}

TEST(WeightedLoss, SayWhatDoesNotFit) {
  const Tensor z = weighted_logits(), y = weighted_classes();
  EXPECT_EQ(message([&] { varve::cross_entropy(z, y, {.class_weights = ones({4})}); }),
            "cross_entropy: class weights [4] for 3 classes (logits [4, 3]): expected [3].");
  EXPECT_EQ(message([&] { varve::cross_entropy(z, y, {.weights = ones({3})}); }),
            "cross_entropy: weights [3] do not fit values [4]: expected that shape, or its first axes.");
  EXPECT_EQ(message([&] { cross_entropy(z, y, ones({5})); }),
            "cross_entropy: weights [5] do not fit rows [4]: expected one for each sample, or for each of its steps.");
  EXPECT_EQ(message([&] {
              cross_entropy_with({.class_weights = {1, 1}})(z, y);
            }),
            "cross_entropy: 2 class weights, but the output f32 [4, 3] has 3 classes: expected one for each.");
  EXPECT_EQ(message([] {
              cross_entropy_with({.class_weights = {1, -1}});
            }),
            "cross_entropy: the weight of class 1 is -1.000000; expected 0 or more.");
  EXPECT_NE(message([&] { accuracy().weighted(z, y, ones({3})); }).find("accuracy: weights [3]"), std::string::npos);
}

TEST(WeightedLoss, ClassesThatCountAlike) {
  const data::Dataset uneven = data::from_tensors(zeros({6, 2}), tensor(Ints32{0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(balanced_class_weights(uneven), (std::vector<double>{0.5, 2, 2}));
}

}  // namespace
}  // namespace varve::train
