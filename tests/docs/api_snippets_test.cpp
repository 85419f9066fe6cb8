// The code that users are shown, compiled and run, with its results.
#include <gtest/gtest.h>
#include <varve/train/run.h>
#include <varve/varve.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "temporary_folder.h"

namespace vv = varve;

namespace {

template <class T>
void expect_near(const vv::Tensor& got, const std::vector<T>& want, double tolerance = 1e-5) {
  const std::vector<T> values = got.to_vector<T>();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], tolerance) << "element " << i;
}

using Folder = vv::test::TemporaryFolder;

TEST(Snippets, Tensors) {
  vv::Tensor a = vv::tensor({{1.f, 2.f}, {3.f, 4.f}});  // f32 [2, 2]
  EXPECT_EQ(a.dtype(), vv::f32);
  EXPECT_EQ(a.shape(), (vv::Shape{2, 2}));

  vv::Tensor b = vv::exp(a) + 1;
  std::cout << b << '\n';
  expect_near<float>(b, {3.7182817f, 8.389056f, 21.085537f, 55.59815f}, 1e-5);
  std::ostringstream out;
  out << a << '\n' << b * 0 + vv::tensor({{0.5f, 2.f}, {21.25f, 100.f}});
  EXPECT_EQ(out.str(), "[[1. 2.]\n [3. 4.]]\n[[  0.5    2.  ]\n [ 21.25 100.  ]]");  // as NumPy prints

  float total = vv::sum(b).item<float>();
  EXPECT_NEAR(total, 88.79102f, 1e-4);

  vv::Tensor w = vv::normal({784, 512}, {.seed = 1, .dtype = vv::bf16});
  EXPECT_EQ(w.dtype(), vv::bf16);
  EXPECT_NEAR(vv::mean(w.to(vv::f32)).item<float>(), 0, 0.01);

  vv::Tensor rows = a.slice({{0, 1}});
  EXPECT_EQ(rows.shape(), (vv::Shape{1, 2}));
  expect_near<float>(rows, {1, 2});

  vv::Tensor p = vv::tensor({{{1.f, 2.f}, {3.f, 4.f}}}), q = vv::tensor({{{1.f, 0.f}, {1.f, 1.f}}});
  vv::Tensor c = vv::einsum("bij,bjk->bik", p, q);
  expect_near<float>(c, {3, 2, 7, 4});

  const Folder folder;
  const std::string file = folder / "b.npy";
  vv::save_npy(file, b);
  EXPECT_EQ(vv::load_npy(file).to_vector<float>(), b.to_vector<float>());
}

TEST(Snippets, AnErrorShowsTheShapes) {
  try {
    vv::matmul(vv::zeros({32, 784}), vv::zeros({512, 10}));
    ADD_FAILURE() << "no error";
  } catch (const vv::Error& e) {
    EXPECT_STREQ(e.what(), "matmul: inner sizes differ: [32, 784] · [512, 10] needs 784 = 512.");
  }
}

TEST(Snippets, Gradients) {
  vv::Tensor a = vv::tensor({{1.f, 2.f}, {3.f, 4.f}});
  auto f = [](vv::Tensor x) { return vv::sum(x * x * x); };
  vv::Tensor g = vv::grad(f)(a);                                                      // 3 a²
  vv::Tensor h = vv::grad([&](vv::Tensor x) { return vv::sum(vv::grad(f)(x)); })(a);  // 6 a
  auto [y, dy] = vv::value_and_grad(f)(a);
  expect_near<float>(g, {3, 12, 27, 48});
  expect_near<float>(h, {6, 12, 18, 24});
  EXPECT_NEAR(y.item<float>(), 100, 1e-4);
  expect_near<float>(dy, {3, 12, 27, 48});
}

TEST(Snippets, YourOwnOperator) {
  const vv::OpDef swish2 =
      vv::elementwise({.name = "swish2", .doc = "x · σ(2x)", .formula = [](vv::Expr x) { return x * sigmoid(2 * x); }});
  vv::Tensor x = vv::tensor({-1.0, 0.0, 2.0});
  vv::Tensor y = swish2(x);
  std::vector<double> want, slope;
  for (double v : {-1.0, 0.0, 2.0}) {
    const double s = 1 / (1 + std::exp(-2 * v));
    want.push_back(v * s);
    slope.push_back(s + 2 * v * s * (1 - s));
  }
  expect_near<double>(y, want, 1e-12);
  expect_near<double>(vv::grad([&](vv::Tensor t) { return vv::sum(swish2(t)); })(x), slope, 1e-12);
}

// ---- your own loop: a small network of variables, Adam written with variables too

struct Network {
  vv::Variable w1{"w1", vv::normal({2, 16}, {.seed = 1, .stream = "w1"}) * 0.7};
  vv::Variable b1{"b1", vv::zeros({16})};
  vv::Variable w2{"w2", vv::normal({16, 2}, {.seed = 1, .stream = "w2"}) * 0.3};
  vv::Variable b2{"b2", vv::zeros({2})};

  std::vector<vv::Variable> parameters() const { return {w1, b1, w2, b2}; }
  vv::Tensor operator()(const vv::Tensor& x) const { return vv::linear(vv::relu(vv::linear(x, w1, b1)), w2, b2); }
};

struct Adam {
  std::vector<vv::Variable> parameters, m, v;
  vv::Variable step{"step", vv::full_int({}, 0), false};

  explicit Adam(const std::vector<vv::Variable>& over) : parameters(over) {
    for (const vv::Variable& p : over) {
      m.emplace_back("m", vv::zeros(p.shape()), false);
      v.emplace_back("v", vv::zeros(p.shape()), false);
    }
  }
  void apply(const std::vector<vv::Tensor>& grads) {
    step.assign(step + 1);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const vv::Updated next = vv::adam_update(parameters[i], grads[i], m[i], v[i], 1e-2, step);
      parameters[i].assign(next.parameter);
      m[i].assign(next.state[0]);
      v[i].assign(next.state[1]);
    }
  }
};

// The sign of x0·x1: not linear in x. The counter is read when the program runs, so that all batches share one program.
std::pair<vv::Tensor, vv::Tensor> batch(std::int64_t number) {
  const vv::Tensor x = vv::uniform({64, 2}, {.stream = "data", .counter = vv::full_int({}, number)}) * 2 - 1;
  const vv::Tensor product = x.slice({{}, {0, 1}}) * x.slice({{}, {1, 2}});
  return {x, vv::cast(product > 0, vv::i64).reshape({64})};
}

TEST(Snippets, YourOwnLoop) {
  Network model;
  Adam adam(model.parameters());
  auto step = vv::compile([&](vv::Tensor x, vv::Tensor labels) {
    auto [loss, grads] = vv::value_and_grad([&] { return vv::cross_entropy(model(x), labels); }, model.parameters());
    adam.apply(grads);
    return loss;
  });
  auto [x0, labels0] = batch(0);
  EXPECT_GT(step.peak_bytes(x0, labels0), 0);
  EXPECT_FALSE(vv::bytes(step.peak_bytes(x0, labels0)).empty());
  EXPECT_EQ(adam.step.value().item<std::int64_t>(), 0);  // known before it runs

  float first = 0, last = 0;
  for (int i = 0; i < 300; ++i) {
    auto [x, labels] = batch(i);
    last = step(x, labels).item<float>();
    if (i == 0) first = last;
  }
  EXPECT_NEAR(first, 0.7, 0.2);
  EXPECT_LT(last, 0.35);
  EXPECT_EQ(adam.step.value().item<std::int64_t>(), 300);
}

TEST(Snippets, TheSameLoopWithoutCompileGivesTheSameNumbers) {
  const auto losses = [](bool compiled) {
    Network model;
    Adam adam(model.parameters());
    const auto body = [&](vv::Tensor x, vv::Tensor labels) {
      auto [loss, grads] = vv::value_and_grad([&] { return vv::cross_entropy(model(x), labels); }, model.parameters());
      adam.apply(grads);
      return loss;
    };
    auto step = vv::compile(body);
    std::vector<float> result;
    for (int i = 0; i < 10; ++i) {
      auto [x, labels] = batch(i);
      result.push_back(compiled ? step(x, labels).item<float>() : body(x, labels).item<float>());
    }
    return result;
  };
  const std::vector<float> with = losses(true), without = losses(false);
  for (std::size_t i = 0; i < with.size(); ++i) EXPECT_NEAR(with[i], without[i], 1e-5) << "step " << i;
}

// ---- layers and training

namespace nn = vv::nn;

nn::Sequential digits_network() {
  return nn::sequential(nn::conv2d(32, {.kernel = {5, 5}, .activation = nn::relu}), nn::max_pool2d(2),
                        nn::dropout(0.25), nn::conv2d(64, {.kernel = {5, 5}, .activation = nn::relu}),
                        nn::max_pool2d(2), nn::dropout(0.25), nn::flatten(), nn::dense(512, {.activation = nn::relu}),
                        nn::dense(10));
}

TEST(Snippets, ANetworkTrained) {
  const Folder folder;
  const std::string run = folder / "runs/digits";
  const std::string file = folder / "digits.safetensors";

  auto model = digits_network();
  EXPECT_THROW(model.parameters(), vv::Error);  // before the first batch or build()

  auto digits = vv::data::digits({.train = 1000, .test = 200});
  auto history = vv::train::fit(model, digits.train,
                                {.loss = vv::train::cross_entropy,
                                 .optimizer = vv::optim::adam(1e-3),
                                 .epochs = 2,
                                 .batch = 128,
                                 .validation = digits.test,
                                 .run = run,
                                 .verbosity = vv::train::Verbosity::quiet});
  auto score = vv::train::evaluate(model, digits.test);  // {loss, accuracy}
  model.save(file);

  ASSERT_EQ(history.epochs.size(), 2u);
  EXPECT_LT(history.epochs[1].value("loss"), history.epochs[0].value("loss"));
  EXPECT_DOUBLE_EQ(history.epochs[1].value("val_accuracy"), score.accuracy);
  EXPECT_NEAR(history.epochs[1].value("val_loss"), score.loss, 1e-6);
  EXPECT_GT(score.accuracy, 0.3);  // guessing gives 0.1
  for (const char* name : {"best.safetensors", "last.safetensors", "index.html"})
    EXPECT_TRUE(std::filesystem::exists(run + "/" + name)) << name;

  const nn::Summary summary = model.summarize();
  EXPECT_EQ(summary.parameters, 1663370);  // cnn-mnist's with padded convolutions
  EXPECT_NE(summary.str().find("peak training memory"), std::string::npos);

  auto copy = digits_network();
  copy.build({28, 28, 1}, {.seed = 99});
  copy.load(file);
  EXPECT_DOUBLE_EQ(vv::train::evaluate(copy, digits.test).loss, score.loss);
}

// The sum needs pictures of one size, hence the padding.
struct Residual : nn::Module {
  nn::Conv2d first, second;
  explicit Residual(int channels) : first(channels, {.kernel = {3, 3}}), second(channels, {.kernel = {3, 3}}) {
    add("first", first);
    add("second", second);
  }
  vv::Tensor forward(vv::Tensor x, vv::Mode mode) override {
    return vv::relu(x + second(vv::relu(first(x, mode)), mode));
  }
};

nn::Sequential network_with_own_module() {
  auto model = nn::sequential(nn::conv2d(4, {.kernel = {5, 5}, .stride = 2}), Residual(4), nn::dropout(0.1),
                              nn::flatten(), nn::dense(10));
  model.build({28, 28, 1}, {.seed = 5});
  return model;
}

// The losses of the first steps.
std::vector<float> own_loop(const vv::data::Dataset& train, std::size_t steps, bool compiled) {
  auto model = network_with_own_module();
  auto adam = vv::optim::adam(1e-3).over(model.parameters());
  auto body = [&](vv::Tensor x, vv::Tensor labels) {
    auto [loss, grads] =
        vv::value_and_grad([&] { return vv::cross_entropy(model(x, vv::Mode::train), labels); }, model.parameters());
    adam.apply(grads);
    return loss;
  };
  auto step = vv::compile(body);
  std::vector<float> losses;
  for (auto& [x, labels] : vv::data::batches(train, {.batch = 128, .seed = 7})) {
    if (losses.empty()) {
      EXPECT_GT(step.peak_bytes(x, labels), x.type().bytes());  // known before it runs
      EXPECT_EQ(adam.steps(), 0);
    }
    losses.push_back((compiled ? step(x, labels) : body(x, labels)).item<float>());
    if (losses.size() == steps) break;
  }
  EXPECT_EQ(adam.steps(), static_cast<std::int64_t>(steps));
  return losses;
}

TEST(Snippets, YourOwnModuleYourOwnLoop) {
  const vv::data::Dataset train = vv::data::digits({.train = 1280, .test = 1}).train;
  const std::vector<float> with = own_loop(train, 10, true), without = own_loop(train, 3, false);
  EXPECT_LT(with.back(), with.front());
  for (std::size_t i = 0; i < without.size(); ++i) EXPECT_NEAR(with[i], without[i], 1e-5) << "step " << i;
}

TEST(Snippets, OwnModulesAreInTheTree) {
  const nn::Sequential model = network_with_own_module();
  EXPECT_EQ(model.variable("1.first.weight").shape(), (vv::Shape{4, 3, 3, 4}));
  EXPECT_EQ(model.parameters().size(), 8u);
}

const char* const kNetworkText = R"(
input = [28, 28, 1]                      # lenet.toml
[[layer]]
conv2d = {out = 6, kernel = 5, padding = "same", activation = "tanh"}
[[layer]]
avg_pool2d = 2
[[layer]]
flatten = {}
[[layer]]
dense = {out = 10}
[train]
data = "mnist"
optimizer = {adam = {rate = 1e-3}}
epochs = 5
batch = 128
)";

TEST(Snippets, ANetworkAsText) {
  const Folder folder;
  const std::string file = folder / "lenet.toml";
  vv::save_text(file, kNetworkText);

  const vv::train::Config config = vv::train::load_config(file);
  EXPECT_EQ(config.name, "lenet");
  EXPECT_EQ(config.data, "mnist");
  EXPECT_EQ(config.optimizer.name, "adam");
  EXPECT_EQ(config.epochs, 5);
  EXPECT_EQ(config.batch, 128);
  const nn::Layer model = vv::train::make_network(config);
  model->build({28, 28, 1});
  EXPECT_EQ(model->parameter_count(), 6 * 25 + 6 + 14 * 14 * 6 * 10 + 10);

  // Trained as `varve train lenet.toml data=digits …` does it.
  const std::vector<std::string> settings = {"data=digits", "data.train=600", "data.test=200", "epochs=1",
                                             "runs=" + (folder / "runs")};
  const vv::train::RunResult result =
      vv::train::run(vv::train::load_config(file, settings), {.verbosity = vv::train::Verbosity::quiet});
  EXPECT_TRUE(result.tested);
  EXPECT_GT(result.test.accuracy, 0.15);
  EXPECT_EQ(result.folder, folder / "runs/lenet-1");
}

TEST(Snippets, AnUnknownSettingGetsTheNearestOne) {
  try {
    vv::train::config_from_toml(kNetworkText, "lenet", {"epoch=3"});
    ADD_FAILURE() << "no error";
  } catch (const vv::Error& e) {
    EXPECT_STREQ(e.what(), "unknown key 'epoch'. Did you mean 'epochs'?");
  }
}

TEST(Snippets, BranchesNameTheirInputs) {
  const nn::TextNetwork text = nn::network_from_toml(R"(
input = [8, 8, 3]
[[layer]]
name = "stem"
conv2d = {out = 4, padding = "same"}
[[layer]]
name = "b1"
conv2d = {out = 2, kernel = 1}
from = "stem"
[[layer]]
name = "b2"
conv2d = {out = 2, kernel = 3, padding = "same"}
from = "stem"
[[layer]]
name = "both"
concat = ["b1", "b2"]
[[layer]]
add = ["stem", "both"]
)",
                                                     "branches.toml");
  nn::Graph network = text.network;
  network.build(text.input);
  EXPECT_EQ(network(vv::zeros({2, 8, 8, 3})).shape(), (vv::Shape{2, 8, 8, 4}));
  EXPECT_EQ(network.variable("b2.weight").shape(), (vv::Shape{2, 3, 3, 4}));
}

}  // namespace
