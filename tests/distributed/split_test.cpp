// Layers of which each rank has a slice: the mathematics is that of one rank.
#include "distributed/fit_ranks.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;
using nn::Split;

class Splits : public FitRanks {};

TEST_P(Splits, AVariableIsKeptInSlicesAndReadWhole) {
  if (started()) return;
  const std::int64_t n = dist::size();
  const Tensor whole = arange(2 * 6 * n).to(f32).reshape({2, 6 * n}).eval();
  for (const std::int64_t blocks : {1, 3}) {
    Variable v("v", whole);
    dist::split({v}, 1, blocks);
    EXPECT_EQ(dist::is_split(v), n > 1);
    EXPECT_EQ(v.shape(), whole.shape());
    EXPECT_EQ(v.value().to_vector<float>(), whole.to_vector<float>());
    const std::vector<float> own = dist::part_of(v).value().to_vector<float>();
    ASSERT_EQ(own.size(), 12u);
    // The first entry of each block's slice.
    const std::int64_t length = 6 / blocks;
    for (std::int64_t b = 0; b < blocks; ++b)
      EXPECT_EQ(own[static_cast<std::size_t>(b * length)], static_cast<float>((b * n + dist::rank()) * length));
    v.assign(v.value() * 2);
    EXPECT_EQ(v.value().to_vector<float>(), (whole * 2).to_vector<float>());
    Variable like("like", whole);
    dist::keep_like(v, {like});
    EXPECT_EQ(dist::part_of(like).shape(), dist::part_of(v).shape());
    dist::unshard({v});
    EXPECT_FALSE(dist::is_split(v));
    EXPECT_EQ(v.value().to_vector<float>(), (whole * 2).to_vector<float>());
  }
  Variable odd("odd", zeros({6 * n + 1}));
  if (n > 1) {
    EXPECT_THROW(dist::split({odd}, 0), Error);
    EXPECT_THROW(dist::split({odd}, 1), Error);
  }
}

// [N, 28, 28, 1] as 28 steps, through two blocks and a mean over the steps.
class Reader : public nn::Module {
 public:
  explicit Reader(double dropout)
      : in_(12),
        blocks_(nn::sequential(nn::transformer_block(12, {.heads = 6, .dropout = dropout}),
                               nn::transformer_block(12, {.heads = 6, .norm_first = false, .dropout = dropout}))),
        out_(10) {
    add("in", in_);
    add("blocks", blocks_);
    add("out", out_);
  }
  void divide_all() { blocks_.place({.split = Split::heads}); }
  Tensor forward(Tensor x, Mode mode) override {
    return out_(mean(blocks_(in_(x.reshape({x.dim(0), 28, 28}), mode), mode), {.axes = Axes{1}}), mode);
  }

 private:
  nn::Dense in_;
  nn::Sequential blocks_;
  nn::Dense out_;
};

// A pair with an activation and dropout between, columns that are gathered for a softmax, rows of what is whole.
nn::Sequential network() {
  auto model = nn::sequential(nn::flatten(), nn::dense(24), nn::activation(nn::tanh), nn::dropout(0.3),
                              nn::dense(18, {.activation = nn::relu}), nn::dense(12, {.activation = nn::softmax}),
                              nn::dense(10));
  model[1].place({.split = Split::columns});
  model[4].place({.split = Split::rows});
  model[5].place({.split = Split::columns});
  model[6].place({.split = Split::rows});
  return model;
}

TEST_P(Splits, ForwardAndGradientsAreThoseOfOneRank) {
  expect_as_one([] {
    const dist::WholeBatch whole;
    std::string text;
    const auto measure = [&](nn::Module& model) {
      model.build({28, 28, 1}, {.seed = 1});
      const Tensor x = sin(arange(4 * 784).to(f32)).reshape({4, 28, 28, 1}).eval();
      const std::vector<Variable> parameters = model.parameters();
      for (const bool compiled : {false, true}) {
        const auto record = [&](Tensor in) {
          auto [loss, grads] = value_and_grad([&] { return sum(square(model(in, Mode::train))); }, parameters);
          std::vector<Tensor> squares = {loss};
          const std::vector<Tensor> means = dist::mean_gradients(grads, parameters);
          for (std::size_t i = 0; i < means.size(); ++i) {
            const Tensor own = sum(square(means[i]));
            squares.push_back(dist::is_split(parameters[i]) ? dist::all_sum(own) : own);
          }
          return stack(squares);
        };
        auto step = compile(record);
        for (const float value : (compiled ? step(x) : record(x)).to_vector<float>())
          text += std::to_string(value) + " ";
      }
    };
    auto dense = network();
    measure(dense);
    Reader reader(0.2);
    reader.divide_all();
    measure(reader);
    return text;
  });
}

train::FitOptions options(int epochs = 2) {
  return {.optimizer = optim::adam(1e-2, {.weight_decay = 1e-3}),
          .epochs = epochs,
          .batch = 32,
          .seed = 3,
          .verbosity = train::Verbosity::quiet};
}

TEST_P(Splits, TrainingIsThatOfOneRank) {
  expect_as_one([] {
    std::string text;
    auto data = data::digits({.train = 70, .test = 37});
    const auto train = [&](nn::Module& model, bool clips) {
      auto o = options();
      o.validation = data.test;
      o.accumulate = 2;
      o.average = 0.9;
      if (clips) o.optimizer.clip_norm(0.5);
      text += losses_text(train::fit(model, data.train, o));
      text += std::to_string(train::evaluate(model, data.test).loss) + " ";  // whole again
    };
    auto dense = network();
    train(dense, true);
    Reader reader(0.1);
    reader.divide_all();
    train(reader, false);
    return text;
  });
}

// `fit` finds what can be split.
TEST_P(Splits, FitSplitsWhatCanBe) {
  expect_as_one([] {
    auto data = data::digits({.train = 70, .test = 1}).train;
    auto o = options();
    o.parallel.split = true;
    o.parallel.micro_batches = 2;
    auto model = nn::sequential(nn::flatten(), nn::dense(24, {.activation = nn::relu}), nn::dropout(0.2), nn::dense(16),
                                nn::dense(10));
    return losses_text(train::fit(model, data, o));
  });
}

TEST_P(Splits, AnyNumberOfRanksGoesOnWithACheckpoint) {
  static const TemporaryFolder folder;
  const auto trained = [](int epochs, const std::string& run, bool resume) {
    auto model = network();
    auto o = options(epochs);
    o.run = run;
    o.resume = resume;
    return losses_text(train::fit(model, data::digits({.train = 70, .test = 1}).train, o));
  };
  if (std::getenv("VARVE_RANK")) {
    trained(2, std::getenv("RUN"), true);
    return;
  }
  const std::string run = folder / std::to_string(GetParam());
  setenv("RUN", run.c_str(), 1);
  trained(1, run, false);
  started();
  expect_near(trained(4, run, true), trained(4, "", false), 2e-4);
}

// One sum forward and one back for a pair of layers, whatever stands between them; a rank has its share of the weights.
TEST_P(Splits, APairSendsTwoSumsAndEachRankHasItsShare) {
  if (started()) return;
  const dist::WholeBatch whole;
  auto model = nn::sequential(nn::dense(96 * 4, {.activation = nn::gelu}), nn::dropout(0.1), nn::dense(96));
  model[0].place({.split = Split::columns});
  model[2].place({.split = Split::rows});
  model.build({96}, {.seed = 1});
  auto step = compile([&](Tensor x) {
    auto [loss, grads] = value_and_grad([&](const Tensor& in) { return sum(square(model(in, Mode::train))); })(x);
    return std::pair(loss, grads);
  });
  const Tensor x = ones({8, 96});
  step(x).first.eval();
  const std::int64_t before = dist::wire_time().messages;
  const auto [loss, slope] = step(x);
  slope.eval();
  EXPECT_EQ(dist::wire_time().messages - before, dist::size() > 1 ? 1 + 2 : 0);  // whether all run the same program
  std::int64_t kept = 0;
  for (const Variable& variable : model.parameters()) kept += dist::part_of(variable).shape().numel();
  EXPECT_EQ(kept, (2 * 96 * 384 + 384) / dist::size() + 96);
}

TEST_P(Splits, WhatMakesNoSenseIsRefused) {
  if (started()) return;
  EXPECT_THROW(nn::batch_norm().place({.split = Split::columns}), Error);
  EXPECT_THROW(nn::dense(4).place({.split = Split::heads}), Error);
  EXPECT_THROW(nn::dense(4).place({.rank = 0, .split = Split::rows}), Error);
  EXPECT_THROW(nn::split_by_name("colums"), Error);
  if (dist::size() == 1) return;
  EXPECT_THROW(nn::transformer_block(10, {.heads = 5}).place({.split = Split::heads}), Error);
  auto odd = nn::dense(7);
  odd.place({.split = Split::columns});
  EXPECT_THROW(odd.build({4}), Error);
  auto model = network();
  model.build({28, 28, 1});
  EXPECT_THROW(model(ones({2, 28, 28, 1})), Error);  // without a WholeBatch
  EXPECT_THROW(optim::lamb().over(model.parameters()), Error);
  EXPECT_THROW(optim::adam().over(model.parameters(), {.shard_optimizer = true}), Error);
  auto data = data::digits({.train = 32, .test = 1}).train;
  auto o = options(1);
  o.parallel.split = true;
  auto single = nn::sequential(nn::flatten(), nn::dense(10));
  EXPECT_THROW(train::fit(single, data, o), Error);
}

TEST_P(Splits, NetworkFilesSayWhat) {
  if (started()) return;
  const dist::WholeBatch whole;
  auto network = nn::network_from_toml(
      "input = [4]\n[[layer]]\ndense = {out = 12, activation = \"relu\"}\nsplit = \"columns\"\n"
      "[[layer]]\ndense = 2\nsplit = \"rows\"\n",
      "two");
  network.network.build(network.input);
  EXPECT_EQ(dist::is_split(network.network.variable("dense_1.weight")), dist::size() > 1);
  EXPECT_EQ(dist::part_of(network.network.variable("dense_2.weight")).shape(), Shape({12 / dist::size(), 2}));
  EXPECT_EQ(network.network(ones({2, 4})).to_vector<float>().size(), 4u);
  EXPECT_THROW(nn::network_from_toml("input = [4]\n[[layer]]\ndense = 12\nsplit = \"heads\"\n", "one"), Error);
}

INSTANTIATE_TEST_SUITE_P(Of, Splits, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace varve::test
