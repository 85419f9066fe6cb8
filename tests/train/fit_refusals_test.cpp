// What does not fit is refused before the first step, with what would.
#include <gtest/gtest.h>

#include "fit_helpers.h"
#include "text_checks.h"

namespace varve {
namespace {

using namespace train_tests;
using test::contains;

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

train::FitOptions quiet() {
  train::FitOptions options;
  options.verbosity = train::Verbosity::quiet;
  return options;
}

data::Dataset numbers(std::int64_t outputs) {
  const Tensor x = normal({40, 3}, {.seed = 1});
  return data::from_tensors(x.eval(), (x.slice({{}, {0, outputs}}) * 5).eval(), {.name = "numbers"});
}

// With the standard loss a regression once reported loss 0 and accuracy 1.
TEST(FitRefuses, ALossThatDoesNotFitTheTargets) {
  for (const std::int64_t outputs : {1, 2}) {
    auto model = nn::sequential(nn::dense(outputs));
    const std::string said = refusal([&] { train::fit(model, numbers(outputs), quiet()); });
    EXPECT_TRUE(contains(said, "A regression takes the loss mse (or mae, huber)")) << said;
    EXPECT_TRUE(contains(said, "\"numbers\"")) << said;
    EXPECT_EQ(refusal([&] { train::evaluate(model, numbers(outputs)); }), said);
    EXPECT_TRUE(
        contains(refusal([&] { train::evaluate(model, numbers(outputs), {.loss = train::binary_cross_entropy}); }),
                 "expected 0 to 1"));
    EXPECT_EQ(refusal([&] { train::find_rate(model, numbers(outputs)); }), said);
    train::FitOptions options = quiet();
    options.loss = train::mse;
    EXPECT_EQ(refusal([&] { train::fit(model, numbers(outputs), options); }), "no error");
  }
  auto model = nn::sequential(nn::dense(3));
  train::FitOptions options = quiet();
  options.loss = train::mse;
  EXPECT_TRUE(contains(refusal([&] { train::fit(model, points(40, 1), options); }),
                       "Class numbers take the loss cross_entropy"));
  // A metric of classes beside a loss of numbers says nothing either.
  auto one = nn::sequential(nn::dense(1));
  options.metrics = {train::accuracy()};
  EXPECT_TRUE(contains(refusal([&] { train::fit(one, numbers(1), options); }), "one number each"));
}

TEST(FitRefuses, AMonitorThatNobodyMeasures) {
  auto model = nn::sequential(nn::dense(3));
  train::FitOptions options = quiet();
  options.monitor = "val_acuracy";
  options.validation = points(20, 2);
  int steps = 0;
  options.callbacks = {train::each_step([&](train::Session&) { ++steps; })};
  EXPECT_EQ(
      refusal([&] { train::fit(model, points(40, 1), options); }),
      "fit: monitor: no value is named 'val_acuracy'. Did you mean 'val_accuracy'? Known: loss, accuracy, val_loss, "
      "val_accuracy.");
  options.monitor = "";
  options.validation = {};
  options.callbacks.push_back(train::early_stopping({.monitor = "val_accuracy"}));
  EXPECT_TRUE(contains(refusal([&] { train::fit(model, points(40, 1), options); }), "Known: loss, accuracy."));
  EXPECT_EQ(steps, 0);
}

TEST(FitRefuses, OutputsThatAreNotTheClasses) {
  for (const std::int64_t outputs : {2, 5}) {
    auto model = nn::sequential(nn::dense(outputs));
    train::FitOptions options = quiet();
    options.validation_share = 0.2;
    const Folder folder;
    options.run = folder / "run";
    int steps = 0;
    options.callbacks = {train::each_step([&](train::Session&) { ++steps; })};
    EXPECT_EQ(refusal([&] { train::fit(model, points(40, 1), options); }),
              "the network gives " + std::to_string(outputs) +
                  " outputs, but points has 3 classes: the last layer must have as many.");
    EXPECT_EQ(steps, 0);
  }
}

}  // namespace
}  // namespace varve
