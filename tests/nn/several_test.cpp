// Modules of several inputs and outputs.
#include "helpers.h"

namespace varve::nn_tests {
namespace {

// An image and a question; two answers, one of which is of the image alone.
struct Answers : nn::Module {
  nn::Dense image = nn::dense(4), question = nn::dense(4), digit = nn::dense(3), size = nn::dense(1);
  Answers() {
    add("image", image);
    add("question", question);
    add("digit", digit);
    add("size", size);
  }
  Tensors forward_all(const Tensors& x, Mode mode) override {
    const Tensor seen = relu(image(x["image"], mode));
    return {{"digit", digit(seen + question(x["question"], mode), mode)}, {"size", size(seen, mode)}};
  }
  std::string kind() const override { return "answers"; }
};

const std::vector<Field> kSample = {{"image", {f32, {6}}}, {"question", {f32, {2}}}};

TEST(SeveralInputs, AreTakenByNameAndByPlace) {
  Answers model;
  model.build_all(kSample, {.seed = 3});
  EXPECT_EQ(str(model.inputs()), "image f32 [6], question f32 [2]");
  EXPECT_EQ(str(model.outputs()), "digit f32 [3], size f32 [1]");
  EXPECT_EQ(model.parameter_count(), 6 * 4 + 4 + 2 * 4 + 4 + 4 * 3 + 3 + 4 + 1);
  const Tensor image = ones({5, 6}), question = ones({5, 2});
  const Tensors named = model({{"question", question}, {"image", image}}), placed = model({image, question});
  EXPECT_EQ(named["digit"].to_vector<float>(), placed[0].to_vector<float>());
  EXPECT_EQ(named["size"].shape(), (Shape{5, 1}));
}

TEST(SeveralInputs, RefuseAnotherStructure) {
  Answers model;
  model.build_all(kSample);
  const Tensor image = ones({5, 6}), question = ones({5, 2});
  EXPECT_EQ(message_of([&] { model(image); }),
            "answers: inputs of a sample: expected 2 (image f32 [6], question f32 [2]), got 1 (f32 [5, 6]).");
  EXPECT_EQ(message_of([&] {
              model({{"image", image}, {"qestion", question}});
            }),
            "answers: inputs of a sample: \"question\" is missing: expected 2 (image f32 [6], question f32 [2]), got 2 "
            "(image f32 [5, 6], qestion f32 [5, 2]). Did you mean 'qestion'?");
  EXPECT_NE(message_of([&] { model({image, image}); }).find("expected 2 input features, got 6"), std::string::npos);
  EXPECT_NE(message_of([&] {
              model({{"image", image}, {"question", Tensor()}});
            }).find("undefined"),
            std::string::npos);
  EXPECT_NE(message_of([&] { model(Tensors()); }).find("at least one input"), std::string::npos);
  auto one = nn::dense(3);
  EXPECT_EQ(message_of([&] {
              one({image, image});
            }),
            "dense: expected one input, got 2 (f32 [5, 6], f32 [5, 6]). A module of several inputs overrides "
            "forward_all().");
  struct Neither : nn::Module {
  } neither;
  EXPECT_NE(message_of([&] { neither(image); }).find("has no forward()"), std::string::npos);
  struct Two : nn::Module {
    Tensors forward_all(const Tensors& x, Mode) override { return {x[0], x[0]}; }
  } two;
  EXPECT_NE(message_of([&] { two(image); }).find("gives 2 outputs (f32 [5, 6], f32 [5, 6])"), std::string::npos);
  EXPECT_EQ(two(Tensors(image)).size(), 2u);
}

TEST(SeveralInputs, AreSummarisedHookedAndSaved) {
  Answers model;
  model.build_all(kSample, {.seed = 1});
  const nn::Summary summary = model.summarize({.batch = 8});
  EXPECT_EQ(summary.rows.size(), 4u);
  // Products, and some 100 for biases and the rest; what both outputs need is counted once.
  EXPECT_NEAR(summary.flops, 2 * 8 * (6 * 4 + 2 * 4 + 4 * 3 + 4) + 160, 60);
  EXPECT_GT(summary.peak_bytes, 0);
  const Tensor image = ones({5, 6}), question = ones({5, 2});
  const Tensors before = model({image, question});
  std::vector<Shape> seen;
  const std::int64_t number = model.hook([&](const nn::Module&, const Tensor& x, const Tensor& y) {
    EXPECT_EQ(x.node(), image.node());
    seen.push_back(y.shape());
    return y.dim(1) == 1 ? y * 2 : Tensor();
  });
  const Tensors hooked = model({image, question});
  EXPECT_EQ(seen, (std::vector<Shape>{{5, 3}, {5, 1}}));
  EXPECT_EQ(hooked["digit"].to_vector<float>(), before["digit"].to_vector<float>());
  EXPECT_EQ(hooked["size"].to_vector<float>()[0], 2 * before["size"].to_vector<float>()[0]);
  model.unhook(number);
  Answers other;
  other.build_all(kSample, {.seed = 2});
  other.set_weights(model.weights());
  EXPECT_EQ(other({image, question})["digit"].to_vector<float>(), before["digit"].to_vector<float>());
}

TEST(SeveralInputs, GraphsNameThem) {
  nn::Graph graph({"image", "question"});
  EXPECT_NE(message_of([&] { graph.add_step({.layer = nn::layer(nn::dense(4))}); }).find("image, question"),
            std::string::npos);
  graph.add_step({.name = "a", .layer = nn::layer(nn::dense(4)), .from = {"image"}})
      .add_step({.name = "b", .layer = nn::layer(nn::dense(4)), .from = {"question"}})
      .add_step({.name = "sum", .from = {"a", "b"}, .join = nn::Join::add})
      .add_step({.name = "size", .layer = nn::layer(nn::dense(1)), .from = {"a"}})
      .add_step({.name = "digit", .layer = nn::layer(nn::dense(3)), .from = {"sum"}})
      .set_outputs({"digit", "size"});
  EXPECT_NE(message_of([&] { graph.set_outputs({"digt"}); }).find("Did you mean 'digit'?"), std::string::npos);
  graph.build_all(kSample);
  EXPECT_EQ(str(graph.outputs()), "digit f32 [3], size f32 [1]");
  const Tensor image = ones({5, 6}), question = ones({5, 2});
  EXPECT_EQ(graph({{"question", question}, {"image", image}})["digit"].to_vector<float>(),
            graph({image, question})[0].to_vector<float>());
  EXPECT_NE(message_of([&] { graph(image); }).find("expected 2 (image f32 [6], question f32 [2])"), std::string::npos);
  // A layer of several inputs stands in a graph as well, and a sequential hands all of them on.
  nn::Graph outer({"x", "y"});
  struct Product : nn::Module {
    Tensors forward_all(const Tensors& x, Mode) override { return x[0] * x[1]; }
  };
  outer.add_step({.name = "product", .layer = nn::layer(Product()), .from = {"x", "y"}});
  EXPECT_EQ(outer({tensor({2.f}), tensor({3.f})}).one().item<float>(), 6);
  auto chain = nn::sequential(Product(), nn::activation(nn::relu));
  EXPECT_EQ(chain({tensor({2.f}), tensor({-3.f})}).one().item<float>(), 0);
}

}  // namespace
}  // namespace varve::nn_tests
