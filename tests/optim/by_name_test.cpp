#include "optim/problem.h"

namespace varve::optim {
namespace {

using Names = std::vector<std::string>;

TEST(ByName, EveryOptimizerIsThere) {
  EXPECT_EQ(names(), (Names{"sgd", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "lamb", "lion", "adafactor",
                            "muon", "lbfgs"}));
  for (const std::string& name : names()) {
    EXPECT_EQ(by_name(name, {}).name(), name);
    EXPECT_EQ(options_of(name)[0], "rate");
    // Every listed option is taken.
    for (const std::string& option : options_of(name)) {
      const bool counts = option == "iterations" || option == "history";
      const double value = option == "nesterov" || option == "lazy" ? 0 : counts ? 3 : 0.5;
      EXPECT_NO_THROW(by_name(name, {{option, value}})) << name << ' ' << option;
    }
  }
  EXPECT_EQ(options_of("sgd"), (Names{"rate", "momentum", "nesterov", "weight_decay", "lazy"}));
}

TEST(ByName, OptionsReachTheirFields) {
  EXPECT_EQ(by_name("adam", {}).rate(), adam().rate());
  EXPECT_EQ(by_name("sgd", {{"rate", 0.25}}).rate(), 0.25);
  EXPECT_EQ(five_steps(by_name("sgd", {{"rate", 0.1}, {"momentum", 0.8}, {"nesterov", 1}, {"weight_decay", 0.05}})),
            five_steps(sgd(0.1, {.momentum = 0.8, .nesterov = true, .weight_decay = 0.05})));
  EXPECT_EQ(five_steps(by_name("adamw", {{"rate", 0.1}})), five_steps(adamw(0.1)));
  EXPECT_EQ(five_steps(by_name("adamw", {{"rate", 0.1}, {"beta1", 0.5}, {"beta2", 0.7}, {"epsilon", 0.1}})),
            five_steps(adamw(0.1, {.beta1 = 0.5, .beta2 = 0.7, .epsilon = 0.1, .weight_decay = 0.01})));
  EXPECT_EQ(five_steps(by_name("rmsprop", {{"momentum", 0.5}, {"decay", 0.8}})),
            five_steps(rmsprop(1e-3, {.decay = 0.8, .momentum = 0.5})));
}

TEST(ByName, UnknownNamesGetTheNearest) {
  expect_error([] { by_name("adan", {}); }, "optimizer 'adan' is not known. Did you mean 'adam'? There are: sgd,");
  expect_error([] { options_of("xyzzy"); }, "optimizer 'xyzzy' is not known. There are: sgd, adam");
  expect_error(
      [] {
        by_name("sgd", {{"momentun", 0.9}});
      },
      "sgd: option 'momentun' is not known. Did you mean 'momentum'? There are: rate, momentum");
  expect_error([] { by_name("sgd", {{"nesterov", 0.5}}); }, "sgd: nesterov is 0.5; expected 0 (off) or 1 (on)");
  expect_error([] { by_name("sgd", {{"momentum", 2}}); }, "sgd: momentum is 2");
}

TEST(ByName, EveryScheduleIsThere) {
  EXPECT_EQ(schedule_names(), (Names{"constant", "step_decay", "exponential", "milestones", "cosine", "one_cycle",
                                     "polynomial", "plateau"}));
  for (const std::string& name : schedule_names()) {
    std::vector<std::pair<std::string, double>> options;
    for (const std::string& option : schedule_options_of(name))
      options.emplace_back(option, option == "patience" ? 2 : 0.5);
    EXPECT_EQ(schedule_by_name(name, options).name(), name);
  }
}

TEST(ByName, ScheduleOptionsReachTheirFields) {
  const Progress half{.step = 50, .steps = 100, .epoch = 5, .epochs = 10};
  EXPECT_EQ(schedule_by_name("step_decay", {{"every", 2}, {"factor", 0.5}, {"after", 1}}).factor(half), 0.25);
  EXPECT_EQ(schedule_by_name("exponential", {{"factor", 0.5}}).factor(half), 1.0 / 32);
  EXPECT_EQ(schedule_by_name("milestones", {{"epochs", 2}, {"epochs", 4}, {"epochs", 6}, {"factor", 0.5}}).factor(half),
            0.25);
  EXPECT_NEAR(schedule_by_name("cosine", {{"final", 0.5}}).factor(half), 0.75, 1e-12);
  EXPECT_EQ(schedule_by_name("one_cycle", {{"rise", 0.5}}).factor(half), 1);
  EXPECT_EQ(schedule_by_name("polynomial", {{"power", 2}}).factor(half), 0.25);
  Schedule waits = schedule_by_name("plateau", {{"patience", 1}, {"factor", 0.5}});
  waits.observe(1);
  waits.observe(1);
  EXPECT_EQ(waits.factor(half), 0.5);
}

TEST(ByName, UnknownSchedulesGetTheNearest) {
  expect_error([] { schedule_by_name("cosin", {}); }, "schedule 'cosin' is not known. Did you mean 'cosine'?");
  expect_error(
      [] {
        schedule_by_name("cosine", {{"finale", 1}});
      },
      "cosine: option 'finale' is not known. Did you mean 'final'?");
  expect_error(
      [] {
        schedule_by_name("constant", {{"rate", 1}});
      },
      "constant: option 'rate' is not known. There are none.");
  expect_error([] { schedule_by_name("milestones", {{"epoch", 1}}); }, "Did you mean 'epochs'?");
  expect_error([] { schedule_by_name("milestones", {}); }, "no epochs are given");
  expect_error([] { schedule_by_name("plateau", {{"patience", 1.5}}); }, "patience is 1.5; expected a whole number");
  expect_error([] { schedule_options_of("linear"); }, "schedule 'linear' is not known.");
}

}  // namespace
}  // namespace varve::optim
