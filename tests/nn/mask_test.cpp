// Padding on the left, on the right or between must not show: each layer gives valid steps what it gives a sequence
// alone, and learns the same from it.
#include <algorithm>

#include "helpers.h"

namespace varve::nn_tests {
namespace {

constexpr std::int64_t kSteps = 5;
const std::vector<std::int64_t> kLengths = {3, 5, 1};

enum class Side : std::uint8_t { right, left, scattered };

// Where the valid steps of each sequence are.
std::vector<std::vector<std::int64_t>> places(Side side) {
  if (side == Side::scattered) return {{0, 2, 3}, {0, 1, 2, 3, 4}, {2}};
  std::vector<std::vector<std::int64_t>> all;
  for (const std::int64_t length : kLengths) {
    all.emplace_back();
    for (std::int64_t k = 0; k < length; ++k) all.back().push_back(side == Side::right ? k : kSteps - length + k);
  }
  return all;
}

nn::Mask mask_of(Side side, std::int64_t steps = kSteps) {
  if (side == Side::right) return nn::Mask::of_lengths(tensor(kLengths), steps);
  std::vector<bool> valid(kLengths.size() * static_cast<std::size_t>(steps), false);
  const auto where = places(side);
  for (std::size_t n = 0; n < where.size(); ++n)
    for (const std::int64_t t : where[n])
      valid[n * static_cast<std::size_t>(steps) + static_cast<std::size_t>(t)] = true;
  return nn::Mask::of_valid(tensor(valid, {static_cast<std::int64_t>(kLengths.size()), steps}));
}

// Sequences one by one, [1, length, C], and all of them in a batch whose padding holds something else.
struct Sequences {
  std::vector<Tensor> alone;
  Tensor batch(Side side, double padding) const {
    const Shape& shape = alone[0].shape();
    const std::int64_t width = shape.rank() == 3 ? shape[2] : 1;
    std::vector<double> values(kLengths.size() * static_cast<std::size_t>(kSteps * width), padding);
    const auto where = places(side);
    for (std::size_t n = 0; n < alone.size(); ++n) {
      const std::vector<double> own = alone[n].to_vector<double>();
      for (std::size_t k = 0; k < where[n].size(); ++k)
        for (std::int64_t c = 0; c < width; ++c)
          values[(n * kSteps + static_cast<std::size_t>(where[n][k])) * static_cast<std::size_t>(width) +
                 static_cast<std::size_t>(c)] = own[k * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)];
    }
    Shape all{static_cast<std::int64_t>(kLengths.size()), kSteps};
    if (shape.rank() == 3) all.push_back(width);
    return tensor(values, all).to(alone[0].dtype());
  }
};

Sequences vectors(std::int64_t width) {
  Sequences made;
  for (std::size_t n = 0; n < kLengths.size(); ++n)
    made.alone.push_back(wave(static_cast<double>(n), {1, kLengths[n], width}));
  return made;
}

Sequences token_ids() {
  return {{tensor({3, 1, 2}).reshape({1, 3}), tensor({1, 1, 4, 2, 3}).reshape({1, 5}), tensor({4}).reshape({1, 1})}};
}

struct Learnt {
  std::vector<Tensor> outputs;    // of each sequence: its valid steps [length, ..], or its row
  std::vector<Tensor> gradients;  // of the sum of their squares
};

Learnt learn(nn::Module& model, const std::function<std::vector<Tensor>()>& outputs) {
  Learnt learnt;
  const std::vector<Variable> parameters = model.parameters();
  const auto sum_of_squares = [&] {
    learnt.outputs = outputs();
    Tensor total = zeros({});
    for (const Tensor& y : learnt.outputs) total = total + sum(square(y));
    return total;
  };
  if (parameters.empty())
    sum_of_squares();
  else
    learnt.gradients = value_and_grad(sum_of_squares, parameters).second;
  return learnt;
}

std::vector<Tensor> valid_parts(const nn::Masked& result, Side side) {
  std::vector<Tensor> parts;
  const auto where = places(side);
  for (std::size_t n = 0; n < where.size(); ++n) {
    const auto row = static_cast<std::int64_t>(n);
    const Tensor own = result.y.slice({{row, row + 1}});
    parts.push_back(result.mask.defined() ? gather(own, tensor(where[n]), 1) : own);
  }
  return parts;
}

void expect_same(nn::Module& model, const Sequences& sequences, double padding, const std::string& name,
                 std::initializer_list<Side> sides = {Side::right, Side::left, Side::scattered}) {
  const DType dtype = sequences.alone[0].dtype();
  Shape sample{kSteps};
  if (sequences.alone[0].rank() == 3) sample.push_back(sequences.alone[0].dim(2));
  model.build(sample, {.dtype = dtype});
  fill_waves(model);
  const Learnt alone = learn(model, [&] {
    std::vector<Tensor> parts;
    for (const Tensor& x : sequences.alone) parts.push_back(model(x, Mode::train));
    return parts;
  });
  for (const Side side : sides) {
    SCOPED_TRACE(name + ", padding " + std::to_string(static_cast<int>(side)));
    const Tensor x = sequences.batch(side, padding);
    const Learnt padded = learn(model, [&] { return valid_parts(model.masked(x, Mode::train, mask_of(side)), side); });
    for (std::size_t n = 0; n < kLengths.size(); ++n) expect_near(padded.outputs[n], alone.outputs[n], 1e-5);
    ASSERT_EQ(padded.gradients.size(), alone.gradients.size());
    for (std::size_t i = 0; i < alone.gradients.size(); ++i) expect_near(padded.gradients[i], alone.gradients[i], 2e-4);
  }
}

constexpr double kGarbage = 7;  // in padding

TEST(Masks, LayersOfVectorsGiveWhatSequencesAloneGive) {
  struct Case {
    std::string name;
    nn::Layer model;
  };
  using nn::layer;
  const std::vector<Case> cases = {
      {"dense", layer(nn::dense(3, {.activation = nn::tanh}))},
      {"activation", layer(nn::activation(nn::softmax))},
      {"dropout", layer(nn::dropout(0))},
      {"identity", layer(nn::identity())},
      {"layer_norm", layer(nn::layer_norm())},
      {"rms_norm", layer(nn::rms_norm())},
      {"position_embedding", layer(nn::position_embedding(8))},
      {"rnn", layer(nn::rnn(3))},
      {"lstm", layer(nn::lstm(3))},
      {"lstm, last step", layer(nn::lstm(3, {.sequences = false}))},
      {"lstm, both directions", layer(nn::lstm(3, {.layers = 2, .bidirectional = true}))},
      {"gru", layer(nn::gru(3))},
      {"gru, both directions, last step", layer(nn::gru(3, {.bidirectional = true, .sequences = false}))},
      {"multi_head_attention", layer(nn::multi_head_attention(2))},
      {"multi_head_attention, causal", layer(nn::multi_head_attention(2, {.causal = true}))},
      {"transformer_block", layer(nn::transformer_block(4, {.heads = 2, .hidden = 6}))},
      {"transformer_block, norm behind",
       layer(nn::transformer_block(4, {.heads = 2, .hidden = 6, .norm_first = false}))},
      {"mean_steps", layer(nn::mean_steps())},
      {"max_steps", layer(nn::max_steps())},
      {"last_step", layer(nn::last_step())},
      {"residual", layer(nn::residual(nn::sequential(nn::layer_norm(), nn::lstm(4)), nullptr, nn::tanh))},
      {"branches", layer(nn::branches(nn::Join::concat, nn::lstm(2), nn::dense(3)))},
      {"whole", layer(nn::sequential(nn::gru(4), nn::multi_head_attention(2), nn::mean_steps(), nn::dense(2)))},
  };
  for (const Case& each : cases) expect_same(*each.model, vectors(4), kGarbage, each.name);
}

TEST(Masks, WindowsOfConvolutionsEndWithTheSequence) {
  for (const bool same : {true, false}) {
    auto model = nn::conv1d(3, {.kernel = 2, .padding = same ? "same" : "valid", .activation = nn::relu});
    model.build({kSteps, 4});
    fill_waves(model);
    const Sequences sequences = vectors(4);
    for (const Side side : {Side::right, Side::left}) {
      const nn::Masked padded = model.masked(sequences.batch(side, kGarbage), Mode::infer, mask_of(side));
      const std::vector<bool> valid = [&] {
        std::vector<bool> flags;
        for (const std::int64_t v : padded.mask.valid().to(i64).to_vector<std::int64_t>()) flags.push_back(v != 0);
        return flags;
      }();
      const std::int64_t steps = padded.y.dim(1);
      for (std::size_t n = 0; n < kLengths.size(); ++n) {
        std::vector<std::int64_t> where;
        for (std::int64_t t = 0; t < steps; ++t)
          if (valid[n * static_cast<std::size_t>(steps) + static_cast<std::size_t>(t)]) where.push_back(t);
        ASSERT_EQ(static_cast<std::int64_t>(where.size()), kLengths[n] - (same ? 0 : 1));
        if (where.empty()) continue;
        const auto row = static_cast<std::int64_t>(n);
        expect_near(gather(padded.y.slice({{row, row + 1}}), tensor(where), 1), model(sequences.alone[n]), 1e-5);
      }
    }
  }
}

TEST(Masks, EmbeddingsMakeThemOfTheirPadding) {
  auto model = nn::sequential(nn::embedding(5, 4, {.padding = 0}), nn::lstm(3), nn::mean_steps());
  const Sequences ids = token_ids();
  model.build({kSteps}, {.dtype = i32});
  fill_waves(model);
  std::vector<Tensor> alone;
  for (const Tensor& x : ids.alone) alone.push_back(model(x));
  for (const Side side : {Side::right, Side::left}) {
    const Tensor y = model(ids.batch(side, 0));
    for (std::size_t n = 0; n < alone.size(); ++n) {
      const auto row = static_cast<std::int64_t>(n);
      expect_near(y.slice({{row, row + 1}}), alone[n], 1e-5);
    }
  }
  // Padding learns nothing.
  const auto [loss, gradients] =
      value_and_grad([&] { return sum(model(ids.batch(Side::left, 0))); }, model.parameters());
  expect_near(gradients[0].slice({{0, 1}}), std::vector<double>(4, 0.0));
  EXPECT_EQ(message_of([] { nn::embedding(5, 4, {.padding = 5}); }),
            "embedding: the id of padding is 5; expected 0 to 4, as the vocabulary says.");
}

TEST(Masks, BatchNormCountsValidStepsOnly) {
  const Sequences sequences = vectors(4);
  std::vector<Tensor> parts;
  for (const Tensor& x : sequences.alone) parts.push_back(x);
  for (const Side side : {Side::right, Side::left}) {
    auto padded = nn::batch_norm(), alone = nn::batch_norm();
    const Tensor expected = alone(concat(parts, 1), Mode::train);
    const nn::Masked got = padded.masked(sequences.batch(side, kGarbage), Mode::train, mask_of(side));
    const std::vector<Tensor> own = valid_parts(got, side);
    expect_near(concat({own[0], own[1], own[2]}, 1), expected, 1e-5);
    for (const char* statistic : {"running_mean", "running_var"})
      expect_near(padded.variable(statistic).value(), alone.variable(statistic).value(), 1e-5);
  }
}

TEST(Masks, SequencesWithoutAnyStepGiveZerosAndNoNaN) {
  const nn::Mask none = nn::Mask::of_lengths(tensor({0, 2}), 3);
  const nn::Mask nowhere =
      nn::Mask::of_valid(tensor(std::vector<bool>{false, false, false, true, false, true}, {2, 3}));
  const Tensor x = wave(0, {2, 3, 4});
  for (const nn::Mask& mask : {none, nowhere}) {
    for (const nn::Layer& pool : {nn::layer(nn::mean_steps()), nn::layer(nn::max_steps()), nn::layer(nn::last_step())})
      expect_near((*pool)(x, Mode::infer, mask).slice({{0, 1}}), std::vector<double>(4, 0.0));
    auto model = nn::sequential(nn::transformer_block(4, {.heads = 2}), nn::gru(3), nn::mean_steps());
    const auto finite = [](const Tensor& y) { return all(is_finite(y)).item<bool>(); };
    model.build({3, 4});
    EXPECT_TRUE(finite(model(x, Mode::infer, mask)));
    const auto [loss, gradients] = value_and_grad([&] { return sum(model(x, Mode::train, mask)); }, model.parameters());
    for (const Tensor& gradient : gradients) EXPECT_TRUE(finite(gradient));
  }
}

TEST(Masks, CompiledAsWell) {
  auto model = nn::sequential(nn::lstm(3), nn::multi_head_attention(1), nn::mean_steps());
  model.build({kSteps, 4});
  const Tensor x = vectors(4).batch(Side::right, kGarbage), lengths = tensor(kLengths);
  auto step =
      compile([&](Tensor in, Tensor steps) { return model(in, Mode::infer, nn::Mask::of_lengths(steps, in.dim(1))); });
  expect_near(step(x, lengths), model(x, Mode::infer, mask_of(Side::right)));
  EXPECT_NE(message_of([&] { step(x, tensor({1, 2, 6})).eval(); }), "");
}

// ---- modules of one's own

struct Own : nn::Module {
  std::function<Tensor(Own&, Tensor, Mode)> body;
  nn::Dense dense = nn::dense(4);
  nn::Recurrent lstm = nn::lstm(4);
  nn::Function pool = nn::mean_steps();
  nn::MultiHeadAttention attention = nn::multi_head_attention(2);
  explicit Own(std::function<Tensor(Own&, Tensor, Mode)> given) : body(std::move(given)) {
    add("dense", dense);
    add("lstm", lstm);
    add("pool", pool);
    add("attention", attention);
  }
  Tensor forward(Tensor x, Mode mode) override { return body(*this, x, mode); }
  std::string kind() const override { return "own"; }
};

TEST(Masks, GoAlongTheCallsOfAModuleThatSaysNothing) {
  Own steps([](Own& own, Tensor x, Mode mode) {
    const Tensor h = own.lstm(x * 2, mode) + x;
    const Tensor again = own.attention.attend(relu(own.dense(h, mode)), h, mode);
    return concat({softmax(again.reshape({x.dim(0), x.dim(1), 4, 1}).reshape(x.shape())), h}, -1) +
           linear(concat({h, h}, 2), ones({8, 8}));
  });
  expect_same(steps, vectors(4), kGarbage, "steps");
  Own pooled([](Own& own, Tensor x, Mode mode) {
    const Tensor h = own.lstm(x, mode), row = own.pool(h, mode), other = own.pool(own.attention(h, mode), mode);
    return own.dense(row * other, mode);
  });
  expect_same(pooled, vectors(4), kGarbage, "pooled");
}

TEST(Masks, AreRefusedWhereAForwardPassMixesSteps) {
  const Tensor x = vectors(4).batch(Side::left, kGarbage);
  Own mixes([](Own& own, Tensor in, Mode mode) { return mean(own.lstm(in, mode), {.axes = Axes{1}}); });
  EXPECT_EQ(message_of([&] { mixes(x, Mode::infer, mask_of(Side::left)); }),
            "own: some of its steps are padding, and its forward() does not say what becomes of them: \"sum\" mixes "
            "steps, or moves them, and would take padding for data.\n  Override masking() to answer Masking::uses, and "
            "masked_forward(x, mode, mask) to see to it (in Python: forward(x, train, mask)), or drop the mask with an "
            "unmask layer.");
  EXPECT_EQ(mixes(x).shape(), (Shape{3, 4}));  // without a mask nothing is refused
  Own turns([](Own& own, Tensor in, Mode mode) { return own.dense(flip(in, {1}), mode); });
  EXPECT_NE(message_of([&] { turns(x, Mode::infer, mask_of(Side::left)); }).find("\"flip\" mixes"), std::string::npos);
  Own folds([](Own&, Tensor in, Mode) { return in.reshape({15, 4}); });
  EXPECT_NE(message_of([&] { folds(x, Mode::infer, mask_of(Side::left)); }).find("not parted again"),
            std::string::npos);
  Own reads([](Own& own, Tensor in, Mode mode) {
    const Tensor h = own.lstm(in, mode) * 2;
    h.eval();
    return own.dense(h, mode);
  });
  EXPECT_NE(message_of([&] { reads(x, Mode::infer, mask_of(Side::left)); }).find("was read on the way"),
            std::string::npos);
}

TEST(Masks, AModuleThatUsesThemSaysWhatItGives) {
  struct Sums : nn::Module {
    Tensor forward(Tensor x, Mode mode) override { return masked_forward(std::move(x), mode, {}).y; }
    nn::Masking masking() const override { return nn::Masking::uses; }
    nn::Masked masked_forward(Tensor x, Mode, const nn::Mask& mask) override {
      const Tensor counted = mask.defined() ? x * expand_dims(mask.weights(), 2) : x;
      return {sum(counted, {.axes = Axes{1}})};
    }
  } model;
  const Sequences sequences = vectors(4);
  expect_near(model(sequences.batch(Side::left, kGarbage), Mode::infer, mask_of(Side::left)).slice({{0, 1}}),
              sum(sequences.alone[0], {.axes = Axes{1}}), 1e-5);
}

TEST(Masks, SayWhatDoesNotFit) {
  const Tensor x = wave(0, {3, 6, 4});
  auto model = nn::lstm(3);
  EXPECT_EQ(message_of([&] { model(x, Mode::infer, mask_of(Side::right)); }),
            "lstm: the mask is of 3 sequences with 5 steps each; expected an input [3, 5, ..], got [3, 6, 4].");
  EXPECT_EQ(message_of([] {
              nn::Mask::of_lengths(tensor({1, 7}), 6);
            }),
            "mask: the length of sequence 1 is 7; expected 0 to 6, the steps of the batch.");
  EXPECT_EQ(message_of([] { nn::Mask::of_lengths(ones({2}), 6); }),
            "mask: expected lengths as integers [N], got f32 [2].");
  EXPECT_EQ(message_of([] {
              nn::Mask::of_valid(ones({2, 3}));
            }),
            "mask: expected valid steps as bool [N, T], got f32 [2, 3].");
  auto flat = nn::sequential(nn::lstm(3), nn::flatten(), nn::dense(2));
  EXPECT_EQ(message_of([&] {
              flat(wave(0, {3, 5, 4}), Mode::infer, mask_of(Side::right));
            }),
            "flatten \"1\": some of its input's steps are padding, and it would take them for data. Pool over time "
            "before it (mean_steps, max_steps, last_step), or drop the mask with an unmask layer.");
  auto dropped = nn::sequential(nn::lstm(3), nn::unmask(), nn::flatten(), nn::dense(2));
  EXPECT_EQ(dropped(wave(0, {3, 5, 4}), Mode::infer, mask_of(Side::right)).shape(), (Shape{3, 2}));
}

// What every kind of layer does with a mask over [3, 5, ..]; a new one needs a line here.
struct Kind {
  const char *name, *input, *value, *does;
};
const Kind kKinds[] = {
    {"dense", "[5, 4]", "3", "keeps"},
    {"activation", "[5, 4]", "\"gelu\"", "keeps"},
    {"dropout", "[5, 4]", "0.5", "keeps"},
    {"flatten", "[5, 4]", "{}", "refuses"},
    {"reshape", "[5, 4]", "[4, 5]", "refuses"},
    {"permute", "[5, 4]", "[2, 1]", "refuses"},
    {"identity", "[5, 4]", "{}", "keeps"},
    {"batch_norm", "[5, 4]", "{}", "keeps"},
    {"layer_norm", "[5, 4]", "{}", "keeps"},
    {"rms_norm", "[5, 4]", "{}", "keeps"},
    {"group_norm", "[5, 4]", "2", "refuses"},
    {"instance_norm", "[5, 4]", "{}", "refuses"},
    {"conv2d", "[5, 6, 8]", "2", "refuses"},
    {"depthwise_conv2d", "[5, 6, 8]", "{}", "refuses"},
    {"conv1d", "[5, 4]", "{out = 2, kernel = 3}", "keeps"},
    {"conv2d_transpose", "[5, 6, 8]", "2", "refuses"},
    {"max_pool2d", "[5, 6, 8]", "2", "refuses"},
    {"avg_pool2d", "[5, 6, 8]", "2", "refuses"},
    {"global_avg_pool2d", "[5, 6, 8]", "{}", "refuses"},
    {"global_max_pool2d", "[5, 6, 8]", "{}", "refuses"},
    {"adaptive_avg_pool2d", "[5, 6, 8]", "2", "refuses"},
    {"zero_pad2d", "[5, 6, 8]", "1", "refuses"},
    {"upsample2d", "[5, 6, 8]", "2", "refuses"},
    {"channel_shuffle", "[5, 6, 8]", "2", "keeps"},  // each pixel by itself
    {"local_response_norm", "[5, 6, 8]", "{}", "refuses"},
    {"conv3d", "[5, 4, 4, 3]", "2", "refuses"},
    {"max_pool3d", "[5, 4, 4, 3]", "2", "refuses"},
    {"avg_pool3d", "[5, 4, 4, 3]", "2", "refuses"},
    {"global_avg_pool3d", "[5, 4, 4, 3]", "{}", "refuses"},
    {"global_max_pool3d", "[5, 4, 4, 3]", "{}", "refuses"},
    {"adaptive_avg_pool3d", "[5, 4, 4, 3]", "2", "refuses"},
    {"resize", "[5, 6, 3]", "{size = [8, 5]}", "refuses"},
    {"embedding", "[5]", "{vocabulary = 10, width = 4}", "keeps"},
    {"tied_dense", "[5]", "\"e\"", "keeps"},
    {"position_embedding", "[5, 4]", "9", "keeps"},
    {"rnn", "[5, 4]", "3", "keeps"},
    {"lstm", "[5, 4]", "{width = 3, sequences = false}", "pools"},
    {"gru", "[5, 4]", "3", "keeps"},
    {"last_step", "[5, 4]", "{}", "pools"},
    {"mean_steps", "[5, 4]", "{}", "pools"},
    {"max_steps", "[5, 4]", "{}", "pools"},
    {"mask_steps", "[5, 4]", "{}", "keeps"},
    {"unmask", "[5, 4]", "{}", "pools"},
    {"multi_head_attention", "[5, 4]", "2", "keeps"},
    {"transformer_block", "[5, 4]", "{width = 4, heads = 2}", "keeps"},
};

TEST(Masks, EveryKindOfLayerKeepsPoolsOrRefusesThem) {
  for (const nn::LayerSchema& schema : nn::layer_schemas()) {
    const auto* const found =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return schema.name == k.name; });
    ASSERT_NE(found, std::end(kKinds)) << schema.name << ": what does it do with a mask?";
    std::string text = std::string("input = ") + found->input + "\n";
    if (schema.name == "tied_dense") text += "[[layer]]\nname = \"e\"\nembedding = {vocabulary = 10, width = 4}\n";
    text += "[[layer]]\n" + schema.name + " = " + found->value + "\n";
    nn::TextNetwork made = nn::network_from_toml(text, "n.toml");
    made.network.build(made.input, {.dtype = made.dtype});
    Shape batch{3};
    for (const std::int64_t size : made.input) batch.push_back(size);
    std::string does;
    try {
      does = made.network.masked(zeros(batch, made.dtype), Mode::train, mask_of(Side::right)).mask.defined() ? "keeps"
                                                                                                             : "pools";
    } catch (const Error& error) {
      does = "refuses";
      EXPECT_NE(std::string(error.what()).find("padding"), std::string::npos) << error.what();
    }
    EXPECT_EQ(does, found->does) << schema.name;
  }
}

}  // namespace
}  // namespace varve::nn_tests
