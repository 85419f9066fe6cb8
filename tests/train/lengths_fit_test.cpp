// fit, evaluate and predict of samples that have lengths of their own, or do not all count the same.
#include <gtest/gtest.h>

#include <cmath>

#include "fit_helpers.h"

namespace varve::train_tests {
namespace {

constexpr std::int64_t kSteps = 9;

// Sequences of words 1 … 5, in the class that occurs most often among 1 and 2, and each word's parity as targets of
// steps; what is behind their ends is `padding`.
struct Texts {
  std::vector<std::int64_t> lengths;
  Tensor x, y, parity;
};
Texts texts(std::int64_t count, std::int64_t steps, std::int32_t padding) {
  Texts made;
  std::vector<std::int32_t> x, parity;
  std::vector<std::int32_t> y;
  std::uint32_t state = 7;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t length = 1 + i % kSteps;
    int ones = 0, twos = 0;
    for (std::int64_t t = 0; t < kSteps; ++t) {
      state = state * 1664525 + 1013904223;
      const auto word = static_cast<std::int32_t>(1 + (state >> 24) % 5);
      ones += t < length && word == 1, twos += t < length && word == 2;
      x.push_back(t < length ? word : padding);
      parity.push_back(t < length ? word % 2 : padding % 2);
    }
    for (std::int64_t t = kSteps; t < steps; ++t) x.push_back(padding), parity.push_back(padding % 2);
    y.push_back(ones > twos);
    made.lengths.push_back(length);
  }
  made.x = tensor(x, {count, steps});
  made.parity = tensor(parity, {count, steps});
  made.y = tensor(y);
  return made;
}

data::Dataset of_classes(const Texts& t) {
  return data::from_tensors(t.x, t.y, {.name = "texts", .classes = {"no", "yes"}}).with_lengths(t.lengths);
}

nn::Sequential classifier() { return nn::sequential(nn::embedding(6, 8), nn::gru(8), nn::mean_steps(), nn::dense(2)); }
nn::Sequential tagger() { return nn::sequential(nn::embedding(6, 8), nn::lstm(8), nn::dense(2)); }

train::FitOptions quick() {
  return {.optimizer = optim::adam(0.02), .epochs = 3, .batch = 10, .verbosity = train::Verbosity::quiet};
}

TEST(LengthsFit, PaddingHasNoPartInTraining) {
  const auto losses = [](std::int64_t steps, std::int32_t padding, train::FitOptions options) {
    nn::Sequential model = classifier();
    const train::History history = train::fit(model, of_classes(texts(60, steps, padding)), options);
    std::vector<double> values;
    for (const train::Epoch& epoch : history.epochs) values.push_back(epoch.value("loss"));
    return values;
  };
  const std::vector<double> plain = losses(kSteps, 0, quick());
  EXPECT_LT(plain.back(), plain.front());
  const std::vector<double> more = losses(kSteps + 4, 5, quick());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(more[i], plain[i], 1e-4) << i;
  train::FitOptions in_shards = quick();
  in_shards.parallel.shards = 2;
  const std::vector<double> sharded = losses(kSteps, 0, in_shards);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(sharded[i], plain[i], 1e-3) << i;
}

TEST(LengthsFit, StepsOfPaddingCountInNoLossAndNoMetric) {
  const Texts t = texts(33, kSteps, 4), more = texts(33, kSteps + 5, 2);
  nn::Sequential model = tagger();
  model.build({kSteps}, {.dtype = i32});
  const auto score = [&](const Texts& given, std::int64_t buckets) {
    const data::Dataset set = data::from_tensors(given.x, given.parity).with_lengths(given.lengths);
    return train::evaluate(model, set, {.metrics = {train::accuracy()}, .batch = 8, .buckets = buckets});
  };
  double loss = 0, right = 0, steps = 0;  // by hand, sequence by sequence
  for (std::int64_t i = 0; i < 33; ++i) {
    const std::int64_t length = t.lengths[static_cast<std::size_t>(i)];
    const Tensor x = t.x.slice({{i, i + 1}, {0, length}}), y = t.parity.slice({{i, i + 1}, {0, length}});
    const Tensor output = model(x);
    loss += cross_entropy(output, y, Reduction::sum).item<float>();
    right += sum((argmax(output) == y.to(i64)).to(f32)).item<float>();
    steps += static_cast<double>(length);
  }
  for (const Texts* given : {&t, &more})
    for (const std::int64_t buckets : {0, 3}) {
      EXPECT_NEAR(score(*given, buckets).loss, loss / steps, 1e-5);
      EXPECT_NEAR(score(*given, buckets).accuracy, right / steps, 1e-6);
    }
}

TEST(LengthsFit, BucketsMicroBatchesAndAccumulationLearnAsWell) {
  const data::Dataset set = of_classes(texts(90, kSteps, 0));
  for (int kind = 0; kind < 3; ++kind) {
    train::FitOptions options = quick();
    options.epochs = 15;
    options.buckets = 3;
    options.validation_share = 0.2;
    if (kind == 1) options.accumulate = 2;
    if (kind == 2) options.balanced = true;
    nn::Sequential model = classifier();
    const train::History history = train::fit(model, set, options);
    EXPECT_GT(history.epochs.back().value("accuracy"), 0.75) << kind;
  }
}

TEST(LengthsFit, PredictionsComeInOrder) {
  const Texts t = texts(23, kSteps, 3);
  nn::Sequential model = classifier();
  model.build({kSteps}, {.dtype = i32});
  const Tensor all = train::predict(model, of_classes(t), {.batch = 5});
  for (std::int64_t i = 0; i < 23; ++i) {
    const std::vector<float> alone =
        model(t.x.slice({{i, i + 1}, {0, t.lengths[static_cast<std::size_t>(i)]}})).to_vector<float>();
    const std::vector<float> got = all.slice({{i, i + 1}}).to_vector<float>();
    for (std::size_t c = 0; c < 2; ++c) EXPECT_NEAR(got[c], alone[c], 1e-5);
  }
}

TEST(LengthsFit, AModelThatWouldTakePaddingForDataIsRefusedBeforeItTrains) {
  nn::Sequential model = nn::sequential(nn::embedding(6, 8), nn::flatten(), nn::dense(2));
  try {
    train::fit(model, of_classes(texts(20, kSteps, 0)), quick());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("flatten \"1\": some of its input's steps are padding"), std::string::npos)
        << error.what();
  }
}

TEST(WeightedFit, SamplesCountWhatTheirWeightsSay) {
  const data::Dataset set = points(60, 3);
  nn::Sequential model = small_network();
  model.build({8});
  std::vector<double> weights(60);
  double loss = 0, right = 0, total = 0;
  for (std::int64_t i = 0; i < 60; ++i) {
    const double weight = weights[static_cast<std::size_t>(i)] = static_cast<double>(i % 4);
    const auto [x, y] = set.at(i);
    const Tensor output = model(expand_dims(x, 0));
    loss += weight * cross_entropy(output, expand_dims(y, 0)).item<float>();
    right += weight * (argmax(output).item<std::int64_t>() == y.item<std::int64_t>());
    total += weight;
  }
  const train::Score score = train::evaluate(model, set.with_weights(weights), {.batch = 7});
  EXPECT_NEAR(score.loss, loss / total, 1e-5);
  EXPECT_NEAR(score.accuracy, right / total, 1e-6);
  train::FitOptions options = quick();
  options.epochs = 10;
  EXPECT_GT(train::fit(model, set.with_weights(weights), options).epochs.back().value("accuracy"), 0.8);
}

TEST(WeightedFit, IgnoredLabelsCountNowhere) {
  const data::Dataset set = points(40, 4);
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < 40; ++i) {
    labels.push_back(i % 5 == 0 ? -1 : set.at(i).second.item<std::int32_t>());
    if (i % 5 != 0) kept.push_back(i);
  }
  const auto whole = data::whole(set);
  const data::Dataset some = data::from_tensors(whole->first, tensor(labels));
  nn::Sequential model = small_network();
  model.build({8});
  const train::Score expected = train::evaluate(model, set.subset(kept), {.batch = 40});
  const train::Score score =
      train::evaluate(model, some, {.loss = train::cross_entropy_with({.ignore_index = -1}), .batch = 7});
  EXPECT_NEAR(score.loss, expected.loss, 1e-5);
  EXPECT_NEAR(score.accuracy, expected.accuracy, 1e-6);
}

TEST(WeightedFit, ConfigurationsSaySo) {
  const train::Config config = train::config_from_toml(
      "input = [4]\n[[layer]]\ndense = 2\n[train]\nclass_weights = [1, 3.5]\nignore_index = -1\nbalanced = true\n"
      "buckets = 4\n",
      "n.toml");
  EXPECT_EQ(config.class_weights, (std::vector<double>{1, 3.5}));
  EXPECT_EQ(config.ignore_index, -1);
  EXPECT_TRUE(config.balanced);
  EXPECT_EQ(config.buckets, 4);
  const train::Config again = train::config_from_toml(config.toml(), "again.toml");
  EXPECT_EQ(again.ignore_index, -1);
  EXPECT_EQ(again.toml(), config.toml());
  EXPECT_FALSE(train::config_from_toml(config.toml(), "n.toml", {"ignore_index=none"}).ignore_index.has_value());
}

}  // namespace
}  // namespace varve::train_tests
