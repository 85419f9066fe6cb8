#include "optim/problem.h"

namespace varve::optim {
namespace {

// Five steps of SGD with rate 0.1 in float64, and after each e = 0.9 e + 0.1 p, from e = p at the start.
const std::vector<double> kAverages = {0.9428675,   -1.84685695, 0.201107,     2.9682774, 0.159976031,
                                       -1.02856625, 0.471202087, -0.258839037, 1.66292255};
const std::vector<double> kParameters = {0.795245,   -1.43445234, -0.50848,     2.88109569, 0.556294688,
                                         -1.1023775, 0.396225591, -0.284671568, 0.922340874};

std::vector<double> values(const Average& average) {
  std::vector<double> all;
  for (const Variable& v : average.state()) {
    for (const double x : v.value().to_vector<double>()) all.push_back(x);
  }
  return all;
}

TEST(Average, FollowsTheParameters) {
  for (const bool compiled : {false, true}) {
    Problem problem;
    Bound bound = sgd(0.1).over(problem.parameters());
    Average average(problem.parameters(), 0.9);
    const auto step = [&] {
      bound.apply(problem.gradients());
      average.update();
    };
    auto program = compile(step);
    for (int i = 0; i < 5; ++i) compiled ? program() : step();
    expect_near(problem.values(), kParameters);
    expect_near(values(average), kAverages);
  }
}

TEST(Average, SwapsThereAndBack) {
  Problem problem;
  Bound bound = sgd(0.1).over(problem.parameters());
  Average average(problem.parameters(), 0.9);
  auto step = compile([&] {
    bound.apply(problem.gradients());
    average.update();
  });
  for (int i = 0; i < 4; ++i) {
    step();
    average.swap();
    average.swap();
  }
  step();
  average.swap();
  expect_near(problem.values(), kAverages);
  expect_near(values(average), kParameters);
  average.swap();
  expect_near(problem.values(), kParameters);
}

TEST(Average, NamesItsStateAndRefusesMistakes) {
  const Problem problem;
  Average average(problem.parameters());
  EXPECT_EQ(average.state()[0].name(), "average.fc.weight");
  EXPECT_FALSE(average.state()[0].trainable());
  expect_error([&] { Average(problem.parameters(), 1); }, "average: decay is 1");
  auto swaps = compile([&] { average.swap(); });
  expect_error([&] { swaps(); }, "call it between steps");
}

TEST(Average, EqualWeightsGiveTheMean) {
  Variable w("w", tensor({10.f}));
  Average average = Average::equal({w});
  for (const float value : {1.f, 2.f, 6.f}) {
    w.assign(tensor({value}));
    average.update();
  }
  average.swap();
  expect_near(w.value().to_vector<double>(), {3});
  EXPECT_EQ(average.state().size(), 2);  // with the count
}

}  // namespace
}  // namespace varve::optim
