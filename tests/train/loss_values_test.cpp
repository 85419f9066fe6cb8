// Losses. Expected numbers: NumPy in float64, the losses written out by hand (log-softmax as z - log Σ exp z).
#include <gtest/gtest.h>

#include "varve/autodiff.h"
#include "varve/train.h"

namespace varve::train {
namespace {

using Floats = std::vector<float>;

Tensor logits() { return tensor(Floats{2, -1, 0.5, 0, 3, -2, 1.5, 1, -0.5, -1, 0.25, 0.75}, {4, 3}); }
Tensor classes() { return tensor(std::vector<std::int32_t>{0, 2, 1, 2}); }
Tensor shares() { return tensor(Floats{0.7f, 0.2f, 0.1f, 0, 0.5f, 0.5f, 0, 1, 0, 0.25f, 0.25f, 0.5f}, {4, 3}); }
float value(const Loss& loss, const Tensor& output, const Tensor& target) { return loss(output, target).item<float>(); }
std::string error_of(const Loss& loss, const Tensor& output, const Tensor& target) {
  try {
    loss(output, target);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Loss, CrossEntropyOfClasses) {
  EXPECT_NEAR(value(cross_entropy, logits(), classes()), 1.7320094816781322, 1e-6);
  EXPECT_NEAR(value(cross_entropy, logits(), classes().to(i64)), 1.7320094816781322, 1e-6);
  EXPECT_NEAR(value(cross_entropy, logits(), classes().to(u8)), 1.7320094816781322, 1e-6);
  EXPECT_NEAR(value(cross_entropy, logits(), classes().reshape({4, 1})), 1.7320094816781322, 1e-6);
}

TEST(Loss, CrossEntropyOfEachToken) {
  EXPECT_NEAR(value(cross_entropy, logits().reshape({2, 2, 3}), classes().reshape({2, 2})), 1.7320094816781322, 1e-6);
  EXPECT_NEAR(value(cross_entropy, logits().reshape({2, 2, 3}), shares().reshape({2, 2, 3})), 1.4351344816781322, 1e-6);
}

TEST(Loss, CrossEntropyOfProbabilities) {
  EXPECT_NEAR(value(cross_entropy, logits(), shares()), 1.4351344816781322, 1e-6);
  EXPECT_NEAR(value(cross_entropy, logits(), one_hot(classes(), 3)), 1.7320094816781322, 1e-6);
}

TEST(Loss, CrossEntropyHasTheGradientOfSoftmax) {
  const std::vector<double> expected = {-0.053600741353, 0.009778143318,  0.043822598035, 0.011780854131,
                                        0.236624780638,  -0.248405634769, 0.143524248242, -0.162948143029,
                                        0.019423894787,  0.024402276883,  0.085172315265, -0.109574592148};
  for (const Tensor& target : {classes(), one_hot(classes(), 3)}) {
    const Floats g = grad([&](const Tensor& z) { return cross_entropy(z, target); })(logits()).to_vector<float>();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(g[i], expected[i], 1e-6) << i;
  }
}

TEST(Loss, SmoothedCrossEntropy) {
  EXPECT_NEAR(value(smoothed_cross_entropy(0.1), logits(), classes()), 1.7382594816781323, 1e-6);
  EXPECT_NEAR(value(smoothed_cross_entropy(0.1), logits(), shares()), 1.4710719816781321, 1e-6);
  EXPECT_EQ(smoothed_cross_entropy(0).name, "cross_entropy");
  EXPECT_THROW(smoothed_cross_entropy(1), Error);
  EXPECT_THROW(smoothed_cross_entropy(-0.1), Error);
}

TEST(Loss, BinaryCrossEntropyTakesIntegersAndColumns) {
  const Tensor z = tensor(Floats{2, -3, 0.5, -0.25});
  const Tensor t = tensor(std::vector<std::int32_t>{1, 0, 0, 1});
  for (const Tensor& output : {z, z.reshape({4, 1})})
    for (const Tensor& target : {t, t.to(f32), t.reshape({4, 1})})
      EXPECT_NEAR(value(binary_cross_entropy, output, target), 0.4938829416689162, 1e-6);
}

TEST(Loss, RegressionTakesIntegersAndColumns) {
  const Tensor o = tensor(Floats{1.5, -2, 0.25, 4});
  const Tensor t = tensor(std::vector<std::int64_t>{1, 0, 0, 1});
  for (const Tensor& output : {o, o.reshape({4, 1})}) {
    EXPECT_NEAR(value(mse, output, t), 3.328125, 1e-6);
    EXPECT_NEAR(value(mae, output, t), 1.4375, 1e-6);
    EXPECT_NEAR(value(huber, output, t.reshape({4, 1})), 1.0390625, 1e-6);
  }
}

TEST(Loss, Bfloat16OutputsGiveFloat32Losses) {
  const Tensor loss = cross_entropy(logits().to(bf16), classes());
  EXPECT_EQ(loss.dtype(), f32);
  EXPECT_NEAR(loss.item<float>(), 1.7320094816781322, 1e-6);  // these logits are exact in bf16
  EXPECT_EQ(binary_cross_entropy(ones({2}, bf16), ones({2})).dtype(), f32);
  EXPECT_EQ(mse(ones({2}, bf16), ones({2})).dtype(), f32);
}

TEST(Loss, ShapesThatDoNotFitAreSaid) {
  const std::string rows = error_of(cross_entropy, logits(), zeros({5}, i32));
  EXPECT_NE(rows.find("cross_entropy: an output f32 [4, 3] does not fit targets i32 [5]"), std::string::npos) << rows;
  EXPECT_NE(rows.find("class numbers of shape [4]"), std::string::npos) << rows;
  EXPECT_NE(error_of(cross_entropy, logits(), zeros({4})).find("f32 [4]"), std::string::npos);
  EXPECT_NE(error_of(cross_entropy, zeros({}), zeros({}, i32)).find("no classes"), std::string::npos);
  // [4, 2] against [4] must not be broadcast.
  EXPECT_NE(error_of(mse, zeros({4, 2}), zeros({4})).find("mse"), std::string::npos);
  EXPECT_NE(error_of(binary_cross_entropy, zeros({4, 2}), zeros({4, 3})).find("[4, 3]"), std::string::npos);
  EXPECT_NE(error_of(mae, zeros({4}), zeros({4, 1, 1})).find("mae"), std::string::npos);
}

TEST(Loss, ByName) {
  for (const char* name : {"cross_entropy", "smoothed_cross_entropy", "binary_cross_entropy", "mse", "mae", "huber"})
    EXPECT_EQ(loss_by_name(name).name, name);
  try {
    loss_by_name("cross_entropie");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Did you mean 'cross_entropy'?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace varve::train
