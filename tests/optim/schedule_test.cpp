#include "optim/problem.h"

namespace varve::optim {
namespace {

double at_epoch(const Schedule& schedule, double epoch) {
  return schedule.factor(
      {.step = static_cast<std::int64_t>(epoch * 100), .steps = 10000, .epoch = epoch, .epochs = 100});
}

double at_step(const Schedule& schedule, std::int64_t step) {
  return schedule.factor({.step = step, .steps = 1000, .epoch = static_cast<double>(step) / 10, .epochs = 100});
}

TEST(Schedule, Constant) {
  EXPECT_EQ(at_epoch(Schedule(), 0), 1);
  EXPECT_EQ(at_epoch(constant(), 100), 1);
  EXPECT_EQ(Schedule().name(), "constant");
  EXPECT_EQ(Schedule("mine", [](const Progress& p) { return p.epoch; }).factor({.epoch = 0.5}), 0.5);
}

TEST(Schedule, StepsDrop) {
  const Schedule schedule = step_decay({.every = 10, .factor = 0.5, .after = 5});
  EXPECT_EQ(at_epoch(schedule, 0), 1);
  EXPECT_EQ(at_epoch(schedule, 14.99), 1);
  EXPECT_EQ(at_epoch(schedule, 15), 0.5);
  EXPECT_EQ(at_epoch(schedule, 24.99), 0.5);
  EXPECT_EQ(at_epoch(schedule, 25), 0.25);
  EXPECT_EQ(at_epoch(step_decay({.every = 0.1, .factor = 0.5}), 0.3), 0.125);  // 0.3 / 0.1 is below 3
}

TEST(Schedule, ExponentialAndMilestones) {
  EXPECT_DOUBLE_EQ(at_epoch(exponential(0.9), 2), 0.81);
  EXPECT_DOUBLE_EQ(at_epoch(exponential(0.25), 0.5), 0.5);
  const Schedule schedule = milestones({30, 60}, 0.5);
  EXPECT_EQ(at_epoch(schedule, 29.99), 1);
  EXPECT_EQ(at_epoch(schedule, 30), 0.5);
  EXPECT_EQ(at_epoch(schedule, 60), 0.25);
}

TEST(Schedule, CosineAndPolynomial) {
  const Schedule schedule = cosine({.final = 0.2});
  EXPECT_DOUBLE_EQ(at_step(schedule, 0), 1);
  EXPECT_NEAR(at_step(schedule, 500), 0.6, 1e-12);
  EXPECT_NEAR(at_step(schedule, 250), 0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_NEAR(at_step(schedule, 1000), 0.2, 1e-12);
  EXPECT_NEAR(at_step(schedule, 2000), 0.2, 1e-12);  // past the end it stays
  EXPECT_DOUBLE_EQ(at_step(polynomial(), 250), 0.75);
  EXPECT_DOUBLE_EQ(at_step(polynomial(2), 500), 0.25);
  EXPECT_DOUBLE_EQ(at_step(polynomial(2), 1000), 0);
}

TEST(Schedule, OneCycle) {
  const Schedule schedule = one_cycle({.rise = 0.4, .start = 0.1, .end = 0.01});
  EXPECT_DOUBLE_EQ(at_step(schedule, 0), 0.1);
  EXPECT_NEAR(at_step(schedule, 200), 0.55, 1e-12);  // half-way up
  EXPECT_DOUBLE_EQ(at_step(schedule, 400), 1);
  EXPECT_NEAR(at_step(schedule, 700), 0.505, 1e-12);  // half-way down
  EXPECT_NEAR(at_step(schedule, 1000), 0.01, 1e-12);
  EXPECT_DOUBLE_EQ(at_step(one_cycle({.rise = 0}), 0), 1);
}

TEST(Schedule, WarmupRisesToTheSchedule) {
  const Schedule constant_after = constant().after_warmup(5);
  EXPECT_EQ(at_epoch(constant_after, 0), 0);
  EXPECT_DOUBLE_EQ(at_epoch(constant_after, 1), 0.2);
  EXPECT_EQ(at_epoch(constant_after, 5), 1);
  EXPECT_EQ(at_epoch(constant_after, 50), 1);
  // Without a jump: linear up to where the cosine is at a fifth of the run.
  const Schedule schedule = cosine().after_warmup(20);
  const double there = at_step(cosine(), 200);
  EXPECT_NEAR(at_step(schedule, 100), there / 2, 1e-12);
  EXPECT_NEAR(at_step(schedule, 200), there, 1e-12);
  EXPECT_NEAR(at_step(schedule, 600), at_step(cosine(), 600), 1e-12);
  EXPECT_EQ(schedule.name(), "cosine");
  EXPECT_EQ(at_epoch(constant().after_warmup(0), 0), 1);
}

TEST(Schedule, PlateauDropsWhenNothingImproves) {
  Schedule schedule = plateau({.patience = 2, .factor = 0.5, .threshold = 0.1, .least = 0.2});
  const auto after = [&](double metric) {
    schedule.observe(metric);
    return at_epoch(schedule, 1);
  };
  EXPECT_EQ(at_epoch(schedule, 0), 1);
  EXPECT_EQ(after(10), 1);
  EXPECT_EQ(after(9.5), 1);    // less than a tenth better: the first idle epoch
  EXPECT_EQ(after(8.9), 1);    // progress
  EXPECT_EQ(after(8.5), 1);    // idle
  EXPECT_EQ(after(8.5), 0.5);  // idle twice: drops
  EXPECT_EQ(after(NAN), 0.5);
  EXPECT_EQ(after(100), 0.25);
  EXPECT_EQ(after(100), 0.25);
  EXPECT_EQ(after(100), 0.2);  // never below the least
}

TEST(Schedule, PlateauTakesNegativeMetrics) {  // -accuracy
  Schedule schedule = plateau({.patience = 1, .factor = 0.5, .threshold = 0.1});
  schedule.observe(-0.5);
  schedule.observe(-0.6);  // better by a fifth
  EXPECT_EQ(at_epoch(schedule, 1), 1);
  schedule.observe(-0.61);
  EXPECT_EQ(at_epoch(schedule, 1), 0.5);
}

TEST(Schedule, PlateauResumes) {
  const auto make = [] { return plateau({.patience = 2, .factor = 0.5}).after_warmup(2); };
  Schedule first = make(), second = make();
  second.restore(first.state());  // before any metric
  for (const double metric : {3.0, 3.0, 3.0, 2.0, 2.5}) first.observe(metric);
  second.restore(first.state());
  EXPECT_EQ(second.state(), first.state());
  EXPECT_EQ(at_epoch(second, 5), 0.5);
  EXPECT_EQ(at_epoch(second, 1), 0.25);  // warming up to it
  second.observe(2.5);
  EXPECT_EQ(at_epoch(second, 5), 0.25);
  EXPECT_EQ(at_epoch(first, 5), 0.5);
  for (const double number : first.state()) EXPECT_TRUE(std::isfinite(number));  // JSON has nothing else
}

TEST(Schedule, OthersRememberNothing) {
  Schedule schedule = cosine();
  schedule.observe(1);
  EXPECT_TRUE(schedule.state().empty());
  schedule.restore({});
  expect_error([&] { schedule.restore({1}); }, "schedule \"cosine\": expected a state of 0 numbers, got 1");
  expect_error([] { plateau().restore({}); }, "schedule \"plateau\": expected a state of 4 numbers, got 0");
}

TEST(Schedule, BadOptionsAreRefused) {
  expect_error([] { step_decay({.every = 0}); }, "step_decay: every is 0; expected a number greater than 0");
  expect_error([] { exponential(-1); }, "exponential: factor is -1");
  expect_error([] { milestones({-1}); }, "milestones: an epoch is -1");
  expect_error([] { cosine({.final = NAN}); }, "cosine: final is nan");
  expect_error([] { one_cycle({.rise = 1}); }, "one_cycle: rise is 1");
  expect_error([] { polynomial(0); }, "polynomial: power is 0");
  expect_error([] { plateau({.patience = 0}); }, "plateau: patience is 0");
  expect_error([] { constant().after_warmup(-1); }, "constant: warm-up is -1");
  expect_error([] { Schedule("mine", {}); }, "\"mine\"");
}

}  // namespace
}  // namespace varve::optim
