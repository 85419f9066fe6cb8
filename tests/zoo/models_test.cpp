// Networks whose computation is their own: option A shortcuts, translation, Boltzmann machines; and training tables.
#include <gtest/gtest.h>

#include <cmath>

#include "varve/varve.h"

namespace varve {
namespace {

TEST(Resnet, ShortcutWithoutParametersSubsamplesAndPads) {
  // One block of the second stage with all convolutions at zero and a batch norm that adds nothing: what is left is
  // relu(shortcut(x)).
  const nn::Layer model = zoo::make("resnet20", {{"width", 2}});
  model->build({4, 4, 3});
  for (const nn::NamedVariable& named : model->named_variables())
    if (named.path.starts_with("layer") && named.path.find("conv") != std::string::npos) {
      Variable weight = named.variable;
      weight.assign(zeros(weight.shape()));
    }
  std::map<std::string, Tensor> outputs;
  {
    const nn::Watch watch([&](const nn::Watch::Call& call) {
      outputs[call.path] = call.y;
      return call.y;
    });
    (*model)(uniform({1, 4, 4, 3}, {.seed = 3}));
  }
  const std::vector<float> before = outputs.at("layer1").to_vector<float>();
  const std::vector<float> after = outputs.at("layer2.0").to_vector<float>();
  ASSERT_EQ(before.size(), 4u * 4 * 2);
  ASSERT_EQ(after.size(), 2u * 2 * 4);
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t column = 0; column < 2; ++column) {
      const float* in = &before[(2 * row * 4 + 2 * column) * 2];
      const float* out = &after[(row * 2 + column) * 4];
      EXPECT_EQ(out[0], 0);
      EXPECT_EQ(out[1], in[0]);
      EXPECT_EQ(out[2], in[1]);
      EXPECT_EQ(out[3], 0);
    }
}

TEST(Language, ThePastAloneDecides) {
  for (const char* name : {"gpt-small", "lstm32", "ptb-large"}) {
    const nn::Layer model = zoo::make(name, {{"vocabulary", 50}, {"width", 16}, {"layers", 2}});
    model->build({6}, {.dtype = i32, .batch = 1});
    const auto logits = [&](std::int32_t last) {
      model->reset_state();
      return (*model)(tensor<std::int32_t>({3, 1, 4, 1, 5, last}, {1, 6})).to_vector<float>();
    };
    const std::vector<float> one = logits(9), other = logits(20);
    ASSERT_EQ(one.size(), 6u * 50);
    for (std::size_t i = 0; i < 5 * 50; ++i) ASSERT_EQ(one[i], other[i]) << name;
    EXPECT_NE(one, other) << name;
  }
}

TEST(Seq2Seq, EveryTargetStepSeesTheWholeSourceAndItsOwnPast) {
  for (const double lstm : {0, 1}) {
    const nn::Layer model = zoo::make("seq2seq", {{"source", 3}, {"vocabulary", 20}, {"width", 8}, {"lstm", lstm}});
    model->build({5}, {.dtype = i32});
    const auto logits = [&](std::vector<std::int32_t> ids) {
      return (*model)(tensor(ids, {1, 5})).to_vector<float>();  // [1, 2, 20]
    };
    const std::vector<float> base = logits({1, 2, 3, 4, 5});
    ASSERT_EQ(base.size(), 2u * 20);
    const std::vector<float> source = logits({1, 2, 9, 4, 5}), future = logits({1, 2, 3, 4, 6});
    EXPECT_NE(std::vector<float>(base.begin(), base.begin() + 20),
              std::vector<float>(source.begin(), source.begin() + 20));
    EXPECT_EQ(std::vector<float>(base.begin(), base.begin() + 20),
              std::vector<float>(future.begin(), future.begin() + 20));
    EXPECT_NE(base, future);
  }
}

TEST(Seq2Seq, NeedsATarget) {
  const nn::Layer model = zoo::make("seq2seq", {{"source", 5}, {"vocabulary", 20}, {"width", 8}});
  EXPECT_THROW(model->build({5}, {.dtype = i32}), Error);
}

// Hidden biases of ±60 make the draw certain, so that the numbers can be worked out in float64:
//   v0 = [[1, 0, .5], [0, 1, 1]], W = [[.1, -.2], [.3, .4], [-.5, .6]], a = [.1, -.1, .2], b = [60, -60]
//   h0 = σ(v0 W + b) = [[1, 0], [1, 0]]; v1 = σ(h0 Wᵀ + a); h1 = σ(v1 W + b) = h0
//   dW = (v1ᵀ h1 - v0ᵀ h0) / 2, da = mean(v1 - v0), db = mean(h1 - h0)
TEST(Rbm, ContrastiveDivergenceIsTheTextbooks) {
  const nn::Layer model = zoo::make("rbm", {{"width", 2}});
  model->build({3});
  model->variable("weight").assign(tensor<float>({{.1f, -.2f}, {.3f, .4f}, {-.5f, .6f}}));
  model->variable("visible_bias").assign(tensor<float>({.1f, -.1f, .2f}));
  model->variable("hidden_bias").assign(tensor<float>({60.f, -60.f}));
  const std::vector<Tensor> grads =
      zoo::contrastive_divergence(*model, tensor<float>({{1.f, 0.f, .5f}, {0.f, 1.f, 1.f}}));
  const double s1 = 1 / (1 + std::exp(-0.2)), s2 = s1, s3 = 1 / (1 + std::exp(0.3));  // σ(.2), σ(.2), σ(-.3)
  const std::vector<double> visible = {s1 - .5, s2 - .5, s3 - .75};
  ASSERT_EQ(grads.size(), model->parameters().size());
  const std::vector<double> dw = grads[0].to_vector<double>(), da = grads[1].to_vector<double>(),
                            db = grads[2].to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(dw[2 * i], visible[i], 1e-6);
    EXPECT_NEAR(dw[2 * i + 1], 0, 1e-6);
    EXPECT_NEAR(da[i], visible[i], 1e-6);
  }
  EXPECT_NEAR(db[0], 0, 1e-6);
  EXPECT_NEAR(db[1], 0, 1e-6);
}

// fit's program takes the step that the textbook's gradients make: with certain draws they are the same.
TEST(Rbm, FitTakesTheTextbooksStep) {
  const nn::Layer model = zoo::make("rbm", {{"width", 2}}), other = zoo::make("rbm", {{"width", 2}});
  const Tensor x = tensor<float>({{1.f, 0.f, .5f}, {0.f, 1.f, 1.f}});
  for (const nn::Layer& each : {model, other}) {
    each->build({3}, {.seed = 1});
    each->variable("hidden_bias").assign(tensor<float>({60.f, -60.f}));
  }
  optim::Bound sgd = optim::sgd(0.5).over(other->parameters());
  sgd.apply(zoo::contrastive_divergence(*other, x));
  train::fit(*model, data::from_tensors(x, x),
             {.loss = train::contrastive_divergence,
              .optimizer = optim::sgd(0.5),
              .batch = 2,
              .metrics = {},
              .verbosity = train::Verbosity::quiet});
  for (const char* name : {"weight", "visible_bias"}) {
    const auto a = model->variable(name).value().to_vector<float>(),
               b = other->variable(name).value().to_vector<float>();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << name << i;
  }
}

TEST(Rbm, LearnsPatternsByContrastiveDivergence) {
  // Each row lights one of four quarters of 16 pixels, and its neighbour by chance.
  const Tensor quarter = cast(floor(uniform({64}, {.seed = 1}) * 4), i32), pixels = cast(arange(16), i32);
  const Tensor lit = floor_divide(pixels, tensor<std::int32_t>(4)) == expand_dims(quarter, 1);
  const Tensor noise = bernoulli({64, 16}, 0.05, {.seed = 2});
  const Tensor x = cast(lit || noise, f32).eval();
  const nn::Layer model = zoo::make("rbm", {{"width", 12}});
  model->build({16}, {.seed = 3});
  optim::Bound sgd = optim::sgd(0.3).over(model->parameters());
  Variable counter("counter", full_int({}, 0), false);
  auto step = compile([&](Tensor batch) {
    counter.assign(counter.value() + 1);
    sgd.apply(zoo::contrastive_divergence(*model, batch, {.seed = 4, .stream = "hidden", .counter = counter}));
    return mse_loss((*model)(batch), batch);
  });
  const float first = step(x).item<float>();
  float last = first;
  for (int i = 0; i < 300; ++i) last = step(x).item<float>();
  EXPECT_GT(first, 0.15);
  EXPECT_LT(last, 0.3 * first);
}

TEST(TrainTables, AreConfigurations) {
  for (const zoo::Entry& entry : zoo::entries()) {
    if (entry.train.empty()) continue;
    const train::Config config = train::load_config(entry.name);
    EXPECT_EQ(config.network, entry.name);
    EXPECT_FALSE(config.data.empty()) << entry.name;
    EXPECT_GT(config.epochs, 0) << entry.name;
  }
}

TEST(TrainTables, SayWhatTheStudiesSay) {
  const train::Config fnn = train::load_config("fnn-mnist"), vgg = train::load_config("vgg16-cifar"),
                      lstm = train::load_config("lstm-imdb"), ptb = train::load_config("ptb-medium");
  EXPECT_EQ(fnn.data, "mnist");
  EXPECT_EQ(fnn.batch, 80);
  EXPECT_EQ(fnn.epochs, 20);
  EXPECT_EQ(fnn.validation, 0.2);
  EXPECT_EQ(fnn.optimizer.name, "adam");
  EXPECT_EQ(fnn.optimizer.options, (train::Numbers{{"rate", 1e-3}}));
  EXPECT_EQ(vgg.data, "cifar10");
  EXPECT_EQ(vgg.batch, 80);
  EXPECT_EQ(vgg.optimizer.options, (train::Numbers{{"rate", 1e-4}}));
  EXPECT_EQ(lstm.batch, 500);
  EXPECT_EQ(lstm.epochs, 10);
  EXPECT_EQ(lstm.optimizer.options.at(0), (train::Numbers::value_type{"rate", 1e-2}));  // weight decay is our own
  EXPECT_EQ(ptb.data_options.at("steps"), 40);
  EXPECT_EQ(ptb.data_options.at("streams"), static_cast<double>(ptb.batch));
}

}  // namespace
}  // namespace varve
