// Layers against PyTorch in float64: every variable and input is wave(k, shape), k = 0 for the input.
#include "helpers.h"

namespace varve::nn_tests {
namespace {

template <class M>
Tensor run(M model, const Tensor& x, Mode mode = Mode::infer) {
  model(x);
  fill_waves(model);
  return model(x, mode);
}

TEST(Layers, Dense) {
  const Tensor y = run(nn::dense(2, {.activation = nn::relu}), wave(0, {2, 3}));
  expect_near(y, {0.7414876, 0.0, 2.0765647, 1.6402244});
}

TEST(Layers, Conv2dPadsAsTensorFlow) {
  expect_near(run(nn::conv2d(2, {.kernel = {3, 2}, .stride = 2, .padding = "same"}), wave(0, {1, 5, 4, 2})),
              {0.2089750, 0.5347758, 1.7763727, 0.1320304, 0.1317723, -0.5189940, 2.1777411, 0.8192486, 0.9864507,
               -0.0048171, 1.1369766, 0.6259101});
  // An even kernel pads after, not before.
  expect_near(run(nn::conv2d(1, {.kernel = 2, .padding = nn::same, .bias = false}), wave(0, {1, 3, 2, 2})),
              {2.6156256, 3.1788992, -1.2756065, -3.0756161, -0.0296599, 1.5327668});
}

TEST(Layers, PaddingIsAWordOrSizes) {
  EXPECT_EQ(run(nn::conv2d(1, {.padding = 0}), wave(0, {1, 5, 4, 2})).shape(), (Shape{1, 3, 2, 1}));
  EXPECT_EQ(run(nn::conv2d(1, {.padding = 1}), wave(0, {1, 5, 4, 2})).shape(), (Shape{1, 5, 4, 1}));
  EXPECT_EQ(run(nn::conv2d(1, {.padding = {{1, 0}, {0, 3}}}), wave(0, {1, 5, 4, 2})).shape(), (Shape{1, 4, 5, 1}));
  EXPECT_EQ(message_of([] { nn::conv2d(1, {.padding = "full"}); }),
            "padding: expected \"same\", \"valid\" or sizes, got \"full\".");
}

TEST(Layers, DepthwiseConv2d) {
  expect_near(run(nn::depthwise_conv2d({.kernel = 2, .padding = nn::valid, .bias = false}, 2), wave(0, {1, 3, 3, 2})),
              {0.3622700, 0.0427067, -0.0260452, 0.4253975, 0.7623439, -0.6183527, 0.6423666, -0.6409367, -0.7973990,
               0.5323813, -0.5592841, 0.4222659, -0.1679401, 0.4338807, -0.4345275, 0.7868165});
}

TEST(Layers, BatchNormInTrainingAndAfter) {
  auto model = nn::batch_norm();
  const Tensor x = wave(0, {4, 3});
  expect_near(run(model, x, Mode::train), {0.9064004, 1.1347286, 0.4126822, 2.0905472, 0.6797765, -0.7979376,
                                           -0.2892234, -1.2585002, -1.0520541, 0.9294656, 1.1535147, 0.4151451});
  expect_near(model.variable("running_mean"), {0.0002112, 0.0163435, 0.0247892});
  expect_near(model.variable("running_var"), {0.9501680, 0.9605745, 0.9741111});
  expect_near(model(x), {0.9091151, 1.0626666, 0.4019126, 1.6542807, 0.7497864, -0.5125741, 0.1567272, -0.5832077,
                         -0.7045304, 0.9236297, 1.0755862, 0.4037731});
}

TEST(Layers, FrozenBatchNormKeepsItsStatistics) {
  auto model = nn::batch_norm();
  const Tensor x = wave(0, {4, 3});
  run(model, x, Mode::train);
  const Tensor expected = model(x);
  const std::vector<float> mean = model.variable("running_mean").value().to_vector<float>();
  model.freeze();
  expect_near(model(x, Mode::train), expected);
  EXPECT_EQ(model.variable("running_mean").value().to_vector<float>(), mean);
}

TEST(Layers, Norms) {
  const Tensor x = wave(0, {2, 4}), image = wave(0, {1, 2, 2, 4});
  expect_near(run(nn::layer_norm(), x),
              {-0.4706508, 0.4821742, 0.3882864, -0.7920187, 2.2051282, 0.6494184, -0.7793903, -0.8593722});
  expect_near(run(nn::rms_norm(), x),
              {0.0, 0.8752037, 0.9119011, 0.0491721, 0.4026766, -0.4969258, -0.8409974, -0.0583567});
  expect_near(run(nn::group_norm(2), image),
              {0.6386970, 1.4923080, 0.4911724, -0.7783120, 1.2492918, -0.6450285, -0.9899153, -0.8689280, -0.5119351,
               0.1445977, 0.2292036, -0.7721769, 2.1964048, 0.7939273, -0.5870709, -0.8638829});
  expect_near(run(nn::instance_norm(), image),
              {0.6914902, 1.7400085, 0.5398901, -0.7795684, 1.2142211, -0.9425087, -1.1304087, -0.8620756, -0.2935673,
               0.0485312, 0.2444544, -0.7739823, 2.0250457, 0.8634885, -0.6761003, -0.8574821});
}

TEST(Layers, Pooling) {
  const Tensor x = wave(0, {1, 3, 3, 1});
  expect_near(run(nn::max_pool2d(2, {.padding = "same"}), x), {0.8632094, 0.9854497, -0.8715758, -0.6312666});
  expect_near(run(nn::avg_pool2d(2, {.ceil_mode = true}), x), {0.4606038, 0.3173333, -0.9270142, -0.6312666});
  expect_near(run(nn::adaptive_avg_pool2d(2), x), {0.4606038, 0.4034681, -0.1639577, -0.4073786});
  expect_near(run(nn::global_avg_pool2d(), x), mean(x, {.axes = Axes{1, 2}}));
  expect_near(run(nn::global_max_pool2d(), x), max(x, {.axes = Axes{1, 2}}));
}

TEST(Layers, ShapesOfFunctions) {
  const Tensor counting = reshape(arange(0, 8), {1, 2, 1, 4});
  expect_near(nn::channel_shuffle(2)(counting), {0, 2, 1, 3, 4, 6, 5, 7});
  expect_near(nn::upsample2d({1, 2})(reshape(arange(0, 4), {1, 2, 2, 1})), {0, 0, 1, 1, 2, 2, 3, 3});
  expect_near(nn::permute({2, 1})(reshape(arange(0, 6), {1, 2, 3})), {0, 3, 1, 4, 2, 5});
  EXPECT_EQ(nn::reshape({2, -1})(counting).shape(), (Shape{1, 2, 4}));
  EXPECT_EQ(nn::zero_pad2d({1, 0}, 2)(counting).shape(), (Shape{1, 3, 5, 4}));
  expect_near(nn::last_step()(reshape(arange(0, 6), {1, 3, 2})), {4, 5});
  expect_near(nn::mean_steps()(reshape(arange(0, 6), {1, 3, 2})), {2, 3});
  expect_near(nn::identity()(counting), counting);
  expect_near(nn::local_response_norm()(counting), local_response_norm(counting));
}

TEST(Layers, AttentionToAMemory) {
  auto model = nn::multi_head_attention(2);
  const Tensor x = wave(0, {1, 2, 4});
  model(x);
  fill_waves(model);
  expect_near(model.attend(x, wave(5, {1, 3, 4}), Mode::infer),
              {-0.5720011, -1.1169941, -1.1366473, -0.6217175, -0.6216146, -1.1386074, -1.1200953, -0.5747849});
}

TEST(Layers, EmbeddingsAndTheirTies) {
  expect_near(run(nn::position_embedding(5), wave(0, {1, 2, 3})),
              {0.8414710, 1.6358825, 1.6609129, 0.9047900, -0.2768697, -1.3283133});
  nn::Embedding embedding(4, 3);
  nn::TiedDense out(embedding, true);
  out(wave(0, {2, 3}));
  fill_waves(out);
  expect_near(out(wave(0, {2, 3})),
              {2.2137804, -0.9300966, -0.1893907, 0.4724078, 1.7309179, 0.6012087, -1.2526752, 0.0146925});
  expect_near(embedding(tensor({2, 0})), concat({wave(1, {4, 3}).slice({{2, 3}}), wave(1, {4, 3}).slice({{0, 1}})}));
}

TEST(Layers, Lstm) {
  expect_near(run(nn::lstm(2), wave(0, {1, 2, 3})), {0.0362632, -0.0382445, -0.2581461, -0.2848270});
  expect_near(run(nn::lstm(2, {.sequences = false}), wave(0, {1, 2, 3})), {-0.2581461, -0.2848270});
}

TEST(Layers, ActivationsHaveNames) {
  const Tensor x = tensor({-1.5f, 0.5f});
  expect_near(nn::activation_by_name("hardswish")(x), hardswish(x));
  expect_near(nn::activation(nn::tanh)(x), varve::tanh(x));
  for (const nn::Activation& known : nn::activations()) {
    SCOPED_TRACE(known.name);
    EXPECT_EQ(nn::activation_by_name(known.name)(x).shape(), x.shape());
    EXPECT_EQ(nn::activation(known).kind(), known.name);
  }
  EXPECT_EQ(message_of([] { nn::activation_by_name("rellu"); }), "unknown activation 'rellu'. Did you mean 'relu'?");
}

TEST(Layers, SizesOutOfRangeAreErrors) {
  EXPECT_EQ(message_of([] { nn::dense(0); }), "dense: the number of outputs is 0; expected 1 or more.");
  EXPECT_EQ(message_of([] { nn::conv2d(4, {.stride = {1, 0}}); }), "conv2d: the stride is 0; expected 1 or more.");
  EXPECT_EQ(message_of([] { nn::conv2d(6, {.groups = 4}); }), "conv2d: 6 filters cannot be split into 4 groups.");
  EXPECT_EQ(message_of([] { nn::dropout(1); }), "dropout: the rate is 1.000000; expected 0 or more, and less than 1.");
  EXPECT_EQ(message_of([] { nn::lstm(std::int64_t{1} << 40); }),
            "lstm: the width is 1099511627776; expected 1 or more, and at most 2^31.");
  EXPECT_EQ(message_of([] { nn::gru(4, {.layers = 2000}); }), "gru: 2000 layers are more than the most, 1000.");
  EXPECT_NE(message_of([] { nn::depthwise_conv2d()(zeros({1, 4, 4, 0})); }).find("has no channels"), std::string::npos);
  EXPECT_NE(message_of([] { nn::dense(std::int64_t{1} << 31)(zeros({1, std::int64_t{1} << 31})); }), "no error");
  EXPECT_EQ(message_of([] { nn::transformer_block(10, {.heads = 4}); }),
            "transformer_block: a width of 10 cannot be split into 4 heads.");
}

}  // namespace
}  // namespace varve::nn_tests
