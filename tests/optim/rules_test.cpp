#include "optim/problem.h"

#include <map>

namespace varve::optim {
namespace {

struct Row {
  const char* name;
  Optimizer optimizer;
  std::vector<double> expected;
};

// The weights, then the biases, after five steps on Problem. Computed in float64 by a NumPy script that writes out each
// update from its paper: w and b start as in Problem, dw = a (w - c) and db = b², and, for example, Adam is
//   m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g*g; w -= rate*(m/(1-b1**t)) / (sqrt(v/(1-b2**t)) + eps)
std::vector<Row> rows() {
  return {
      {"sgd",
       sgd(0.1),
       {0.795245, -1.43445234, -0.50848, 2.88109569, 0.556294688, -1.1023775, 0.396225591, -0.284671568, 0.922340874}},
      {"sgd, decay",
       sgd(0.1, {.weight_decay = 0.2}),
       {0.724510285, -1.28269401, -0.502261794, 2.61156713, 0.534790531, -1.01967784, 0.359671786, -0.256641549,
        0.842971973}},
      {"sgd, momentum",
       sgd(0.1, {.momentum = 0.9}),
       {0.48542, -0.542889844, -1.87063, 2.69037866, 1.35630469, -1.25729, 0.234557702, -0.342997642, -0.808852618}},
      {"sgd, Nesterov",
       sgd(0.1, {.momentum = 0.8, .nesterov = true, .weight_decay = 0.05}),
       {0.484270127, -0.45099738, -1.37432709, 2.49323768, 1.14479718, -1.18753814, 0.224310739, -0.335792844,
        -0.248938785}},
      {"adam",
       adam(0.1),
       {0.527814457, -1.50222465, 0.00435816945, 2.50796368, 0.49203634, -1.37760393, 0.0598394998, -0.730490807,
        1.50700171}},
      {"adam, all options",
       adam(0.1, {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1}),
       {0.531148051, -1.50386725, 0.00681574968, 2.50693803, 0.487347318, -1.17488057, 0.0661790369, -0.730154684,
        1.50971127}},
      {"adamw",
       adamw(0.1),
       {0.52432601, -1.49329444, 0.00288267333, 2.49435824, 0.491057152, -1.3745453, 0.0586770451, -0.728374276,
        1.49820436}},
      {"adamw, no decay",
       adamw(0.1, {}),
       {0.527814457, -1.50222465, 0.00435816945, 2.50796368, 0.49203634, -1.37760393, 0.0598394998, -0.730490807,
        1.50700171}},
      {"rmsprop",
       rmsprop(0.05),
       {0.59989759, -1.48807682, 0.00335191114, 2.52446369, 0.475536342, -1.24891269, 0.170328262, -0.948639731,
        1.51825891}},
      {"rmsprop, momentum",
       rmsprop(0.05, {.decay = 0.95, .momentum = 0.5, .weight_decay = 0.1}),
       {0.360214679, -0.85485183, -0.56280286, 1.92053497, 0.929578139, -1.14165493, -0.0924966539, -1.96593614,
        0.976267584}},
      {"adagrad",
       adagrad(0.2, {.weight_decay = 0.1}),
       {0.542196274, -1.38764067, -0.0866756128, 2.40825589, 0.547380005, -1.13702133, 0.128466257, -1.15027228,
        1.43163727}},
      {"adadelta",
       adadelta(2, {.weight_decay = 0.1}),
       {0.967608952, -1.96724048, 0.467311246, 2.96729832, 0.0325908886, -1.03091019, 0.468074264, -0.285451147,
        1.96738426}},
      {"lamb",
       lamb(0.05),
       {0.623346339, -1.60749956, 0.114395251, 2.60670118, 0.381903669, -1.32813554, 0.225937861, -0.532448097,
        1.70901827}},
      {"lamb, no decay",
       lamb(0.05, {.beta1 = 0.8, .weight_decay = 0}),
       {0.625428967, -1.6067045, 0.108793144, 2.61189649, 0.388104877, -1.32112071, 0.231888997, -0.54374897,
        1.7140482}},
  };
}

TEST(Rules, FiveStepsAgreeWithFloat64) {
  for (const Row& row : rows()) expect_near(five_steps(row.optimizer), row.expected, row.name);
}

TEST(Rules, CompiledStepsAgreeWithFloat64) {
  for (const Row& row : rows()) expect_near(five_compiled_steps(row.optimizer), row.expected, row.name);
}

TEST(Rules, ParametersOfDoublePrecisionKeepIt) {
  for (const Row& row : rows()) {
    Variable w("w", tensor({1.0, -2.0})), narrow("w", tensor({1.0f, -2.0f}));
    Bound wide = row.optimizer.over({w}), usual = row.optimizer.over({narrow});
    for (int i = 0; i < 3; ++i) {
      wide.apply({tensor({0.5, 3.0})});
      usual.apply({tensor({0.5f, 3.0f})});
    }
    EXPECT_EQ(w.value().dtype(), f64);
    expect_near(w.value().to_vector<double>(), narrow.value().to_vector<double>(), row.name);
  }
}

// A parameter that starts at zero has no norm to scale its step by, and one without gradient no step.
TEST(Rules, LambMovesFromZeroAndRestsWithoutGradient) {
  Variable zero("zero", zeros({2, 2})), still("still", ones({2, 2}));
  Bound bound = lamb(0.1, {.weight_decay = 0}).over({zero, still});
  bound.apply({ones({2, 2}), zeros({2, 2})});
  expect_near(zero.value().to_vector<double>(), {-0.1, -0.1, -0.1, -0.1});
  expect_near(still.value().to_vector<double>(), {1, 1, 1, 1});
}

TEST(Rules, AdafactorKeepsARowAndAColumnOfTheLargestAxes) {
  const Variable kernel("kernel", ones({8, 3, 2, 16})), bias("bias", ones({5}));
  std::map<std::string, Shape> kept;
  for (const Variable& v : adafactor().over({kernel, bias}).state()) kept[v.name()] = v.shape();
  EXPECT_EQ(kept["rows.kernel"], Shape({8, 3, 2, 1}));
  EXPECT_EQ(kept["columns.kernel"], Shape({1, 3, 2, 16}));
  EXPECT_EQ(kept["rows.bias"], Shape({5}));
}

// The singular values of a step come close to one: its squares add up to about the rank.
TEST(Rules, MuonMakesStepsOrthogonalButNotOfEmbeddings) {
  Variable w("w", zeros({4, 6})), table("embedding.weight", zeros({4, 6}));
  Bound bound = muon(1, {.nesterov = false, .weight_decay = 0}).over({w, table});
  const Tensor g = uniform({4, 6}, {.seed = 3}) - 0.5;
  bound.apply({g, g});
  const double scale = 6.0 / 4;  // out over in
  EXPECT_NEAR(sum(square(w.value())).item<double>() / scale, 4, 1.5);
  expect_near(abs(table.value()).to_vector<double>(), std::vector<double>(24, 3e-4));  // Adam's first step
}

// Where curvature differs by a factor of a thousand, twenty steps of gradient descent stay far away.
TEST(Rules, LbfgsFindsTheMinimumOfAValley) {
  Variable x("x", tensor({3.0, -2.0, 1.0, 5.0}));
  const Tensor curvature = tensor({1.0, 10.0, 100.0, 1000.0});
  Bound bound = lbfgs().over({x});
  auto step = compile([&] {
    auto [loss, gradients] = value_and_grad([&] { return sum(curvature * x.value() * x.value()); }, {x});
    bound.apply(gradients);
    return loss;
  });
  for (int i = 0; i < 20; ++i) step();
  EXPECT_LT(step().item<double>(), 1e-8);
}

TEST(Rules, BadOptionsAreRefused) {
  expect_error([] { lion(0.1, {.beta1 = 1}); }, "lion: beta1 is 1");
  expect_error([] { adafactor(0.1, {.decay = 0}); }, "adafactor: decay is 0; expected a number greater than 0");
  expect_error([] { muon(0.1, {.iterations = 0}); }, "muon: iterations is 0; expected 1 to 100");
  expect_error([] { lbfgs(1, {.history = 0}); }, "lbfgs: history is 0; expected 1 to 100");
  expect_error([] { sgd(-1); }, "sgd: rate is -1; expected a number, 0 or more");
  expect_error([] { sgd(0.1, {.momentum = 1}); }, "sgd: momentum is 1; expected 0 or more, less than 1");
  expect_error([] { sgd(0.1, {.nesterov = true}); }, "nesterov needs a momentum");
  expect_error([] { adam(0.1, {.beta1 = 1.5}); }, "adam: beta1 is 1.5");
  expect_error([] { adamw(0.1, {.beta2 = -1}); }, "adamw: beta2 is -1");
  expect_error([] { adam(0.1, {.weight_decay = -1}); }, "adam: weight_decay is -1");
  expect_error([] { adam(std::nan("")); }, "adam: rate is nan");
  expect_error([] { rmsprop(0.1, {.decay = 1}); }, "rmsprop: decay is 1");
  expect_error([] { adagrad(0.1, {.epsilon = -1}); }, "adagrad: epsilon is -1");
  expect_error([] { adadelta(1, {.epsilon = 0}); }, "adadelta: epsilon is 0; expected a number greater than 0");
  expect_error([] { lamb(0.1, {.beta2 = 1}); }, "lamb: beta2 is 1");
}

}  // namespace
}  // namespace varve::optim
