// Networks of several inputs and outputs: trained, resumed, measured and asked.
#include <gtest/gtest.h>

#include <signal.h>

#include <cmath>
#include <cstring>

#include "fit_helpers.h"

namespace varve {
namespace {

using namespace train_tests;

std::string refused(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The digit is the largest of three numbers, or the smallest, as the question asks; the size is their sum.
data::Dataset questions(std::int64_t count, std::int64_t seed, bool named = true) {
  const Tensor image = normal({count, 3}, {.seed = seed}).eval();
  std::vector<std::int32_t> asked(static_cast<std::size_t>(2 * count));
  for (std::size_t i = 0; i < asked.size(); ++i) asked[i] = static_cast<std::int32_t>(i / 2 % 2);
  const Tensor question = tensor(asked, {count, 2});
  const Tensor sign = 1 - 2 * question.to(f32).slice({{}, {0, 1}});
  const Tensor digit = cast(argmax(image * sign), i32).eval(), size = sum(image, {.axes = Axes{1}}).eval();
  if (!named) return data::from_tensors({image, question}, {digit, size}, {.name = "questions"});
  return data::from_tensors({{"image", image}, {"question", question}}, {{"size", size}, {"digit", digit}},
                            {.name = "questions"});
}

// Written as text, so that copies of it are networks of their own.
nn::Graph network() {
  nn::Graph graph({"image", "question"});
  graph.add_step({.name = "words", .layer = nn::layer(nn::embedding(2, 4)), .from = {"question"}})
      .add_step({.name = "asked", .layer = nn::layer(nn::flatten())})
      .add_step({.name = "seen", .layer = nn::layer(nn::dense(16, {.activation = nn::relu})), .from = {"image"}})
      .add_step({.name = "both", .from = {"seen", "asked"}})
      .add_step({.name = "hidden", .layer = nn::layer(nn::dense(32, {.activation = nn::relu}))})
      .add_step({.name = "dropped", .layer = nn::layer(nn::dropout(0.1))})
      .add_step({.name = "digit", .layer = nn::layer(nn::dense(3))})
      .add_step({.name = "size", .layer = nn::layer(nn::dense(1)), .from = {"seen"}})
      .set_outputs({"digit", "size"});
  return graph;
}

train::FitOptions settings(const std::string& run = "") {
  train::FitOptions options;
  options.loss = train::losses({{"digit", train::cross_entropy}, {"size", train::mse}}, {{"size", 0.5}});
  options.optimizer = optim::adam(1e-2);
  options.epochs = 3;
  options.batch = 32;
  options.validation = questions(64, 2);
  options.run = run;
  options.seed = 4;
  options.save_seconds = 1e9;
  options.verbosity = train::Verbosity::quiet;
  return options;
}

std::vector<float> weights_of(const nn::Module& model) {
  std::vector<float> all;
  for (const Variable& parameter : model.parameters())
    for (const float value : parameter.value().to_vector<float>()) all.push_back(value);
  return all;
}

TEST(SeveralOutputs, AreTrainedMeasuredAndAsked) {
  nn::Graph model = network();
  const train::History history = train::fit(model, questions(320, 1), settings());
  std::vector<std::string> names;
  for (const auto& [name, value] : history.epochs.back().values) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "digit_loss", "size_loss", "digit_accuracy",
                                             "size_mean_absolute_error", "val_loss", "val_digit_loss", "val_size_loss",
                                             "val_digit_accuracy", "val_size_mean_absolute_error"}));
  EXPECT_EQ(history.monitor, "val_loss");
  const train::Epoch &first = history.epochs.front(), &last = history.epochs.back();
  EXPECT_LT(last.value("size_loss"), 0.5 * first.value("size_loss"));
  EXPECT_LT(last.value("digit_loss"), first.value("digit_loss"));
  EXPECT_NEAR(last.value("loss"), last.value("digit_loss") + 0.5 * last.value("size_loss"), 1e-4);
  const train::Score score = train::evaluate(model, questions(64, 2), {.loss = settings().loss});
  EXPECT_NEAR(score.loss, last.value("val_loss"), 1e-5);
  EXPECT_EQ(score.values.size(), 5u);
  const data::Dataset asked = questions(7, 3);
  const Tensors all = train::predict_all(model, asked, {.batch = 4});
  EXPECT_EQ(all.str(), "digit f32 [7, 3], size f32 [7, 1]");
  const auto whole = data::whole_fields(asked);
  EXPECT_EQ(train::predict_all(model, whole->first, {.batch = 2})["digit"].to_vector<float>(),
            all["digit"].to_vector<float>());
  EXPECT_NE(refused([&] { train::predict(model, asked); }).find("predict_all() returns all of them"),
            std::string::npos);
}

// By place: the same network, the same bits.
TEST(SeveralOutputs, AreNamedOrCounted) {
  nn::Graph named = network(), counted = network();
  train::fit(named, questions(128, 1), settings());
  train::FitOptions options = settings();
  options.loss = train::losses({{"0", train::cross_entropy}, {"1", train::mse}}, {{"1", 0.5}});
  options.validation = questions(64, 2, false);
  options.metrics = {train::of("0", train::accuracy()), train::of("size", train::mean_absolute_error())};
  const train::History history = train::fit(counted, questions(128, 1, false), options);
  EXPECT_EQ(weights_of(named), weights_of(counted));
  EXPECT_FALSE(std::isnan(history.epochs.back().value("val_size_mean_absolute_error")));
}

TEST(SeveralOutputs, GoOnWithTheSameBits) {
  const Folder folder;
  nn::Graph straight = network();
  train::FitOptions options = settings(folder / "straight");
  options.accumulate = 2;
  train::fit(straight, questions(160, 1), options);
  nn::Graph first = network(), second = network();
  options.run = folder / "stopped";
  options.save_steps = 2;
  options.callbacks = {train::each_step([](train::Session& session) {
    if (session.step() == 7) raise(SIGTERM);
  })};
  EXPECT_TRUE(train::fit(first, questions(160, 1), options).interrupted);
  options.callbacks.clear();
  options.resume = true;
  train::fit(second, questions(160, 1), options);
  EXPECT_EQ(weights_of(straight), weights_of(second));
  EXPECT_NE(weights_of(straight), weights_of(first));
  options.loss = train::losses({{"digit", train::cross_entropy}, {"size", train::mae}});
  nn::Graph third = network();
  EXPECT_NE(refused([&] { train::fit(third, questions(160, 1), options); }).find("size: mse × 0.5"), std::string::npos);
}

// Shards, micro-batches and bf16 know nothing of how many outputs there are.
TEST(SeveralOutputs, TrainInShardsInPartsAndInBf16) {
  const auto loss_with = [](const std::function<void(train::FitOptions&)>& change) {
    nn::Graph model = network();
    train::FitOptions options = settings();
    options.epochs = 2;
    change(options);
    return train::fit(model, questions(128, 1), options).epochs.back().value("val_loss");
  };
  const double plain = loss_with([](train::FitOptions&) {});
  EXPECT_NEAR(loss_with([](train::FitOptions& o) { o.parallel.shards = 4; }), plain, 0.2);
  EXPECT_NEAR(loss_with([](train::FitOptions& o) { o.precision = bf16; }), plain, 0.2);
  EXPECT_NEAR(loss_with([](train::FitOptions& o) { o.check_layers = true; }), plain, 1e-3);
}

TEST(SeveralOutputs, MayHaveOneLossOfAllAtOnce) {
  nn::Graph model = network();
  train::FitOptions options = settings();
  options.loss = train::joint_loss("both", [](const Tensors& outputs, const Tensors& targets) {
    return train::cross_entropy(outputs["digit"], targets["digit"]) + train::mse(outputs["size"], targets["size"]);
  });
  const train::History history = train::fit(model, questions(128, 1), options);
  EXPECT_LT(history.epochs.back().value("loss"), history.epochs.front().value("loss"));
  EXPECT_EQ(history.epochs.back().values.size(), 2u);
}

TEST(SeveralOutputs, FindARate) {
  nn::Graph model = network();
  const train::RateFinder found = train::find_rate(model, questions(128, 1), {.loss = settings().loss, .steps = 20});
  EXPECT_EQ(found.rates.size(), found.losses.size());
  EXPECT_GT(found.rates.size(), 5u);
}

TEST(SeveralOutputs, RefuseWhatDoesNotFit) {
  nn::Graph model = network();
  const auto fitted = [&](const std::function<void(train::FitOptions&)>& change) {
    train::FitOptions options = settings();
    change(options);
    return refused([&] { train::fit(model, questions(64, 1), options); });
  };
  EXPECT_NE(fitted([](train::FitOptions& o) { o.loss = train::cross_entropy; }).find("name a loss for each"),
            std::string::npos);
  EXPECT_NE(fitted([](train::FitOptions& o) {
              o.loss = train::losses({{"digt", train::mse}});
            }).find("has no output 'digt': it has 'digit', 'size'. Did you mean 'digit'?"),
            std::string::npos);
  EXPECT_NE(fitted([](train::FitOptions& o) {
              o.loss = train::losses({{"digit", train::cross_entropy}, {"0", train::cross_entropy}});
            }).find("'digit' has two losses"),
            std::string::npos);
  EXPECT_NE(fitted([](train::FitOptions& o) { o.metrics = {train::accuracy()}; }).find("say which output it measures"),
            std::string::npos);
  EXPECT_NE(fitted([](train::FitOptions& o) {
              o.loss = train::losses({{"digit", train::cross_entropy}, {"size", train::binary_cross_entropy}});
            }).find("a target of sample"),
            std::string::npos);
  EXPECT_NE(fitted([](train::FitOptions& o) { o.mixup = 0.2; }).find("one input and one target"), std::string::npos);
  EXPECT_NE(refused([] {
              train::losses({{"a", train::mse}}, {{"b", 2}});
            }).find("which has no loss"),
            std::string::npos);
  EXPECT_THROW(train::losses({}), Error);
  EXPECT_THROW(train::losses({{"a", train::losses({{"b", train::mse}})}}), Error);
  // Data that lacks an input, or a target.
  nn::Graph fresh = network();
  const Tensor image = ones({8, 3}), size = ones({8, 1});
  EXPECT_NE(refused([&] {
              train::fit(fresh, data::from_tensors(image, size), settings());
            }).find("expected 2 inputs (image, question), got 1"),
            std::string::npos);
  const Tensor question = zeros({8, 2}, i64);
  EXPECT_NE(
      refused([&] {
        train::fit(fresh, data::from_tensors({{"image", image}, {"question", question}}, {{"size", size}}), settings());
      }).find("'digit' has a loss, but the data has no target of that name: its target is size f32 [1]"),
      std::string::npos);
  EXPECT_NE(refused([&] {
              train::predict_all(fresh, {{"image", image}, {"question", question.slice({{0, 3}})}});
            }).find("as many samples in every input"),
            std::string::npos);
  EXPECT_THROW(train::predict_all(fresh, Tensors()), Error);
  EXPECT_THROW(train::fit(fresh, questions(64, 1).take(0), settings()), Error);
}

const char* const kText = R"(outputs = ["digit", "size"]
[inputs]
image = [3]
question = [2]
[[layer]]
embedding = {vocabulary = 2, width = 4}
from = "question"
name = "words"
[[layer]]
flatten = {}
name = "asked"
[[layer]]
concat = ["image", "asked"]
name = "both"
[[layer]]
dense = {out = 16, activation = "relu"}
name = "hidden"
[[layer]]
dense = 3
name = "digit"
[[layer]]
dense = 1
name = "size"
from = "hidden"
[train]
data = "npz:questions.npz"
loss = {digit = "cross_entropy", size = "mse"}
loss_weights = {size = 0.5}
metrics = {digit = ["accuracy", "top2"]}
epochs = 2
batch = 32
)";

// As text: trained, resumed and asked from its folder.
TEST(SeveralOutputs, AreWrittenAsText) {
  const Folder folder;
  const train::Config config = train::config_from_toml(kText, "questions.toml");
  EXPECT_EQ(str(train::network_inputs(config)), "image f32 [3], question i32 [2]");
  const train::Config again = train::config_from_toml(config.toml(), "questions.toml");
  EXPECT_EQ(again.toml(), config.toml());
  EXPECT_EQ(again.output_losses, config.output_losses);
  const data::Splits samples{.train = questions(160, 1), .validation = questions(32, 2), .test = questions(32, 3)};
  train::RunOptions options{.folder = folder / "run", .verbosity = train::Verbosity::quiet, .samples = samples};
  const train::RunResult first = train::run(config, options);
  EXPECT_TRUE(first.tested);
  EXPECT_FALSE(std::isnan(first.history.epochs.back().value("val_digit_top2")));
  EXPECT_TRUE(std::isnan(first.history.epochs.back().value("val_size_mean_absolute_error")));
  options.resume = true;
  const train::Config longer = train::config_from_toml(kText, "questions.toml", {"epochs=3", "loss_weights.size=0.5"});
  EXPECT_EQ(train::run(longer, options).history.epochs.size(), 3u);
  const train::TrainedModel run = train::load_run(folder / "run");
  EXPECT_EQ(str(run.inputs), "image f32 [3], question i32 [2]");
  EXPECT_EQ(train::predict_all(*run.model, samples.test).str(), "digit f32 [32, 3], size f32 [32, 1]");
  const std::string whole = kText;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    return text.replace(text.find(from), from.size(), to);
  };
  const auto error_of = [](const std::string& text) {
    return refused([&] { train::config_from_toml(text, "n.toml"); });
  };
  EXPECT_NE(error_of(with("\"digit\", \"size\"]", "\"digt\"]")).find("Did you mean 'digit'?"), std::string::npos);
  EXPECT_NE(error_of(with("image = [3]", "image = {dtype = \"f32\"}")).find("needs 'shape'"), std::string::npos);
  EXPECT_NE(error_of(with("image = [3]", "image = {shape = [3], dtype = \"u8\"}")).find("expected \"f32\" or \"i32\""),
            std::string::npos);
  EXPECT_NE(error_of(with("from = \"question\"\n", "")).find("must say which input it takes"), std::string::npos);
  EXPECT_NE(error_of("input = [3]\n" + whole).find("leave one of the two out"), std::string::npos);
  EXPECT_NE(error_of(with("size = \"mse\"", "size = \"msee\"")).find("unknown loss 'msee'"), std::string::npos);
  EXPECT_NE(error_of(with("size = 0.5", "size = \"much\"")).find("loss_weights: size: expected a number"),
            std::string::npos);
  // Data without one of the inputs.
  const data::Splits lacking{.train = data::from_tensors(ones({8, 3}), ones({8, 1})), .validation = {}, .test = {}};
  EXPECT_NE(refused([&] { train::prepare(config, {}, {.name = ""}, lacking); }).find("expected 2 (image f32 [3]"),
            std::string::npos);
}

TEST(SeveralOutputs, AreDrawnByTheProgram) {
  const data::Splits pairs = data::load("digit_pairs", {{"train", 50}, {"test", 20}});
  EXPECT_EQ(str(pairs.train.inputs()), "left f32 [28, 28, 1], right f32 [28, 28, 1]");
  EXPECT_EQ(pairs.train.classes(0), 19);
  const data::Dataset digits = data::digits({.train = 50, .test = 20}).train;
  for (const std::int64_t i : {0, 7, 49}) {
    const auto [inputs, targets] = pairs.train.sample(i);
    const auto [picture, digit] = digits.at(i);
    EXPECT_TRUE(same_bits(inputs["left"], picture));
    const int left = digit.item<int>(), right = targets["sum"].item<int>() - left;
    EXPECT_EQ(targets["difference"].item<float>(), static_cast<float>(left - right));
    EXPECT_TRUE(right >= 0 && right <= 9);
  }
}

}  // namespace
}  // namespace varve
