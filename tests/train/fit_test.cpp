// fit, evaluate and predict as users call them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "fit_helpers.h"

namespace varve {
namespace {

using namespace train_tests;
namespace fs = std::filesystem;

train::FitOptions quick() {
  train::FitOptions options;
  options.optimizer = optim::adam(1e-2);
  options.epochs = 4;
  options.batch = 32;
  options.verbosity = train::Verbosity::quiet;
  return options;
}

TEST(Fit, LearnsAndTellsWhatItDid) {
  nn::Sequential model = small_network();
  train::FitOptions options = quick();
  options.validation = points(200, 2);
  const train::History history = train::fit(model, points(1000, 1), options);
  ASSERT_EQ(history.epochs.size(), 4u);
  EXPECT_LT(history.epochs.back().value("loss"), 0.6 * history.epochs.front().value("loss"));
  EXPECT_GT(history.epochs.back().value("val_accuracy"), 0.85);
  EXPECT_EQ(history.monitor, "val_accuracy");
  EXPECT_GT(history.best_epoch, 0);
  EXPECT_EQ(history.best, history.epochs[static_cast<std::size_t>(history.best_epoch) - 1].value("val_accuracy"));
  EXPECT_GT(history.peak_bytes, 0);
  EXPECT_TRUE(std::isnan(history.epochs[0].value("nonsense")));
}

TEST(Fit, TheSameSeedGivesTheSameBits) {
  std::vector<Tensor> ends[2];
  for (std::vector<Tensor>& end : ends) {
    nn::Sequential model = small_network();
    train::FitOptions options = quick();
    options.seed = 3;
    train::fit(model, points(300, 1), options);
    for (const Variable& v : model.parameters()) end.push_back(v.value());
  }
  for (std::size_t i = 0; i < ends[0].size(); ++i) EXPECT_TRUE(same_bits(ends[0][i], ends[1][i])) << i;
}

TEST(Fit, AModelOfF64StaysOne) {
  for (const std::int64_t accumulate : {1, 2}) {
    nn::Sequential model = small_network();
    model.build({8}, {.dtype = f64});
    train::FitOptions options = quick();
    options.accumulate = accumulate;
    options.average = 0.9;
    options.validation_share = 0.2;
    const train::History history = train::fit(model, points(500, 1), options);
    EXPECT_LT(history.epochs.back().value("loss"), 0.8 * history.epochs.front().value("loss"));
    for (const Variable& parameter : model.parameters()) EXPECT_EQ(parameter.type().dtype, f64) << parameter.name();
  }
}

TEST(Fit, AccumulatedBatchesMakeOneStep) {
  std::vector<Tensor> ends[2];
  for (int k = 0; k < 2; ++k) {
    auto model = nn::sequential(nn::dense(8, {.activation = nn::tanh}), nn::dense(3));
    train::FitOptions options = quick();
    options.optimizer = optim::sgd(0.1);
    options.epochs = 2;
    // 320 samples: the same ones make a step, in the same order, 40 at once or 10 at a time.
    options.batch = k ? 10 : 40;
    options.accumulate = k ? 4 : 1;
    train::fit(model, points(320, 1), options);
    for (const Variable& v : model.parameters()) ends[k].push_back(v.value());
  }
  for (std::size_t i = 0; i < ends[0].size(); ++i)
    EXPECT_LT(max(abs(ends[0][i] - ends[1][i])).item<float>(), 2e-6f) << i;
}

TEST(Fit, EvaluationCountsEverySampleOnce) {
  auto model = nn::sequential(nn::dense(3));
  const data::Dataset set = points(70, 1);  // two whole batches of 32 and a part
  model.build({8});
  const train::Score whole = train::evaluate(model, set, {.batch = 70});
  const train::Score parts = train::evaluate(model, set, {.batch = 32, .confusion = true});
  EXPECT_NEAR(whole.loss, parts.loss, 1e-6);
  EXPECT_EQ(whole.accuracy, parts.accuracy);
  ASSERT_EQ(parts.confusion.size(), 9u);
  double all = 0, right = 0;
  for (std::size_t i = 0; i < 9; ++i) all += parts.confusion[i];
  for (std::size_t i = 0; i < 3; ++i) right += parts.confusion[i * 4];
  EXPECT_EQ(all, 70);
  EXPECT_NEAR(right / all, parts.accuracy, 1e-6);
  const Tensor outputs = train::predict(model, set, {.batch = 32});
  EXPECT_EQ(outputs.shape(), (Shape{70, 3}));
}

// A smaller last batch would be one more program to compile.
TEST(Fit, ValidationGoesInEvenBatches) {
  struct Watching : nn::Module {
    nn::Dense layer = nn::dense(2);
    std::set<std::int64_t> seen;
    Watching() { add("layer", layer); }
    Tensor forward(Tensor x, Mode mode) override {
      if (mode != Mode::train) seen.insert(x.dim(0));
      return layer(x, mode);
    }
  };
  const auto set = [](std::int64_t samples) {
    return data::from_tensors(ones({samples, 4}), zeros({samples}).to(i32));
  };
  for (const auto& [samples, expected] : std::vector<std::pair<std::int64_t, std::set<std::int64_t>>>{
           {1000, {250}}, {300, {150}}, {100, {100}}, {257, {256, 1}}}) {
    Watching model;
    train::fit(model, set(16),
               {.epochs = 1, .batch = 8, .validation = set(samples), .verbosity = train::Verbosity::quiet});
    model.seen.erase(8);  // as it was built
    EXPECT_EQ(model.seen, expected) << samples;
  }
}

TEST(Fit, BfloatProductsWithFloatMasters) {
  nn::Sequential model = small_network();
  train::FitOptions options = quick();
  options.precision = bf16;
  const train::History history = train::fit(model, points(1000, 1), options);
  for (const Variable& v : model.parameters()) EXPECT_EQ(v.type().dtype, f32) << v.name();
  EXPECT_LT(history.epochs.back().value("loss"), 0.7 * history.epochs.front().value("loss"));
  options.precision = f16;
  EXPECT_THROW(train::fit(model, points(10, 1), options), Error);
}

TEST(Fit, Tf32OnAProcessorIsF32) {
  std::vector<double> losses;
  for (const ProductType precision : {ProductType(f32), tf32}) {
    nn::Sequential model = small_network();
    train::FitOptions options = quick();
    options.precision = precision;
    losses.push_back(train::fit(model, points(200, 1), options).epochs.back().value("loss"));
    losses.push_back(train::evaluate(model, points(70, 2), {.precision = precision}).loss);
  }
  EXPECT_EQ(losses[0], losses[2]);
  EXPECT_EQ(losses[1], losses[3]);
}

TEST(Fit, AverageIsWhatIsEvaluatedAndSaved) {
  const Folder folder;
  nn::Sequential model = small_network();
  train::FitOptions options = quick();
  options.epochs = 1;
  options.average = 0.9;
  options.validation = points(200, 2);
  options.run = folder / "run";
  const train::History history = train::fit(model, points(500, 1), options);
  const Tensor last = model.variable("0.weight").value();
  nn::Sequential other = small_network();
  other.build({8});
  other.load(folder / "run/best.safetensors");
  EXPECT_FALSE(same_bits(last, other.variable("0.weight").value()));
  EXPECT_NEAR(train::evaluate(other, points(200, 2)).accuracy, history.epochs[0].value("val_accuracy"), 1e-6);
}

TEST(Fit, TheLastEpochsAreAveraged) {
  nn::Sequential model = small_network();
  std::vector<std::vector<float>> ends;
  train::FitOptions options = quick();
  const Folder folder;
  options.run = folder / "run";
  options.epochs = 4;
  options.swa = 2;
  options.validation = points(100, 2);
  options.monitor = "val_loss";
  options.callbacks = {train::each_epoch(
      [&](train::Session& s) { ends.push_back(s.model().variable("0.weight").value().to_vector<float>()); })};
  const train::History history = train::fit(model, points(300, 1), options);
  ASSERT_EQ(history.best_epoch, 4);  // or the file below is of another one
  nn::Sequential other = small_network();
  other.build({8});
  other.load(folder / "run/best.safetensors");
  const auto mean = other.variable("0.weight").value().to_vector<float>();
  for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], (ends[2][i] + ends[3][i]) / 2, 1e-6);
  EXPECT_NEAR(train::evaluate(other, points(100, 2)).loss, history.epochs[3].value("val_loss"), 1e-6);
  options.average = 0.9;
  EXPECT_THROW(train::fit(model, points(300, 1), options), Error);
}

// What a module adds is learnt beside the loss: here it alone pulls the weights to zero.
TEST(Fit, WhatModulesAddBelongsToTheLoss) {
  struct Penalized : nn::Module {
    nn::Dense dense{1, {.bias = false}};
    Penalized() { add("dense", dense); }
    Tensor forward(Tensor x, Mode mode) override {
      const Tensor y = dense(x, mode);
      if (mode == Mode::train) nn::add_loss(100 * sum(square(dense.variable("weight").value())));
      return y;
    }
  } model;
  train::FitOptions options = quick();
  options.loss = train::mse;
  options.optimizer = optim::sgd(1e-3);
  options.epochs = 20;
  const Tensor x = uniform({64, 4}, {.seed = 1});
  const train::History history = train::fit(model, data::from_tensors(x, sum(x, {.axes = 1, .keep = true})), options);
  EXPECT_LT(max(abs(model.dense.variable("weight").value())).item<float>(), 0.05);
  EXPECT_GT(history.epochs[0].value("loss"), history.epochs[19].value("loss"));
}

TEST(Fit, EarlyStoppingStops) {
  auto model = nn::sequential(nn::dense(3));
  train::FitOptions options = quick();
  options.epochs = 50;
  options.optimizer = optim::sgd(0.0);  // never gets better
  options.validation = points(50, 2);
  options.callbacks = {train::early_stopping({.patience = 2})};
  const train::History history = train::fit(model, points(64, 1), options);
  EXPECT_EQ(history.epochs.size(), 3u);
  EXPECT_FALSE(history.stopped.empty());
}

TEST(Fit, PlateauLowersTheRate) {
  auto model = nn::sequential(nn::dense(3));
  train::FitOptions options = quick();
  options.epochs = 4;
  options.optimizer = optim::adam(1e-12);
  options.schedule = optim::plateau({.patience = 1, .factor = 0.5});
  options.validation = points(50, 2);
  const train::History history = train::fit(model, points(64, 1), options);
  EXPECT_LT(history.epochs.back().rate, 0.6 * history.epochs.front().rate);
}

TEST(Fit, RefusesWhatCannotBe) {
  auto model = nn::sequential(nn::dense(3));
  train::FitOptions options = quick();
  options.batch = 0;
  EXPECT_THROW(train::fit(model, points(10, 1), options), Error);
  options = quick();
  options.epochs = -1;
  EXPECT_THROW(train::fit(model, points(10, 1), options), Error);
  EXPECT_THROW(train::fit(model, data::Dataset(), quick()), Error);
  options = quick();
  options.drop_last = true;
  EXPECT_THROW(train::fit(model, points(10, 1), options), Error);  // 10 samples, batches of 32
}

Tensor log_of(const Tensor& x) { return varve::log(x); }

TEST(Fit, NanIsTracedToItsLayer) {
  // The logarithm of a number that training soon drives below zero.
  const auto network = [] {
    return nn::sequential(nn::dense(4, {.bias_init = nn::init::constant(3)}),
                          nn::dense(1, {.bias_init = nn::init::constant(2)}), nn::function("log", log_of),
                          nn::dense(3));
  };
  train::FitOptions options = quick();
  options.optimizer = optim::sgd(0.5);
  options.epochs = 20;
  const Folder folder;
  options.run = folder / "run";
  nn::Sequential model = network();
  try {
    train::fit(model, points(300, 1), options);
    FAIL() << "the loss stayed finite";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layer \"2\" (log)"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("step"), std::string::npos) << error.what();
  }
  for (const Variable& v : model.parameters())
    EXPECT_TRUE(all(is_finite(v.value())).item<bool>()) << v.name() << " was not restored";
}

TEST(Fit, StatefulLanguageModel) {
  // A text that repeats with period 5: what comes next is known from what was, across windows of 3.
  const Folder folder;
  std::string text;
  for (int i = 0; i < 600; ++i) text += "abcde"[i % 5];
  save_text(folder / "text.txt", text);
  const data::Splits splits = data::characters(folder / "text.txt", {.steps = 3, .streams = 4, .fetch = {}});
  const std::int64_t words = splits.train.info().vocabulary->size();
  auto model = nn::sequential(nn::embedding(words, 8), nn::lstm(16, {.stateful = true}), nn::dense(words));
  train::FitOptions options = quick();
  options.batch = 4;
  options.epochs = 6;
  options.optimizer = optim::adam(2e-2).clip_norm(1);
  options.validation = splits.test;
  const train::History history = train::fit(model, splits.train, options);
  EXPECT_LT(history.epochs.back().value("val_perplexity"), 1.3);
  EXPECT_EQ(history.monitor, "val_perplexity");
}

}  // namespace
}  // namespace varve
