// Modules: paths, building, copies, freezing, watching, and what they say when something is wrong.
#include "helpers.h"

namespace varve::nn_tests {
namespace {

struct Residual : nn::Module {
  nn::Conv2d first, second;
  explicit Residual(int channels) : first(channels, {.padding = "same"}), second(channels, {.padding = "same"}) {
    add("first", first);
    add("second", second);
  }
  Tensor forward(Tensor x, Mode mode) override { return relu(x + second(relu(first(x, mode)), mode)); }
};

nn::Sequential perceptron() {
  nn::Sequential model;
  model.push(nn::flatten(), "flat").push(nn::dense(8, {.activation = nn::relu}), "fc1").push(nn::dense(3), "fc2");
  return model;
}

std::vector<std::string> paths(const nn::Module& model) {
  std::vector<std::string> found;
  for (const nn::NamedVariable& named : model.named_variables()) found.push_back(named.path);
  return found;
}

TEST(Module, VariablesAreNamedByPaths) {
  auto model = nn::sequential(Residual(4), nn::batch_norm(), nn::dropout(0.5));
  model.build({5, 5, 4});
  EXPECT_EQ(paths(model),
            (std::vector<std::string>{"0.first.weight", "0.first.bias", "0.second.weight", "0.second.bias", "1.weight",
                                      "1.bias", "1.running_mean", "1.running_var", "2.counter"}));
  EXPECT_EQ(model.variable("0.second.weight").name(), "0.second.weight");
  EXPECT_EQ(model.variable("0.second.weight").shape(), (Shape{4, 3, 3, 4}));
  EXPECT_EQ(message_of([&] { model.variable("0.secnd.weight"); }),
            "sequential: has no variable '0.secnd.weight'. Did you mean '0.second.weight'?");
}

TEST(Module, CountsParameters) {
  auto model = nn::sequential(nn::conv2d(32, {.kernel = {5, 5}, .padding = nn::valid}), nn::max_pool2d(2),
                              nn::batch_norm(), nn::flatten(), nn::dense(10));
  model.build({28, 28, 1});
  EXPECT_EQ(model.parameter_count(), 5 * 5 * 32 + 32 + 2 * 32 + 12 * 12 * 32 * 10 + 10);
  auto lstm = nn::lstm(7, {.layers = 2, .bidirectional = true});
  lstm.build({4, 5});
  EXPECT_EQ(lstm.parameter_count(), 2 * (5 + 7 + 1) * 28 + 2 * (14 + 7 + 1) * 28);
  auto gru = nn::gru(7);
  gru.build({4, 5});
  EXPECT_EQ(gru.parameter_count(), (5 + 7 + 2) * 21);
  auto block = nn::transformer_block(8, {.heads = 2});
  block.build({4, 8});
  EXPECT_EQ(block.parameter_count(), 8 * 24 + 24 + 8 * 8 + 8 + 2 * 8 * 32 + 32 + 8 + 4 * 8);
}

TEST(Module, ParametersBeforeBuildAreAnError) {
  auto model = perceptron();
  EXPECT_FALSE(model.built());
  EXPECT_EQ(message_of([&] { model.parameters(); }),
            "dense \"fc1\": has no parameters yet: layers learn their input size from the first batch.\n"
            "  Call build({…}) with the shape of a sample, or run a batch, before asking for parameters.");
  model(zeros({2, 4}));
  EXPECT_TRUE(model.built());
  EXPECT_EQ(model.parameters().size(), 4u);
}

TEST(Module, FirstCallInsideCompileIsAnError) {
  auto model = perceptron();
  auto step = compile([&](Tensor x) { return model(x); });
  EXPECT_EQ(message_of([&] {
              step(zeros({2, 4}));
            }),
            "dense \"fc1\": has no 'weight' yet, and inside a compiled function it is too late to make it.\n"
            "  Call model.build({…}) with the shape of a sample, or run one batch, before compile.");
  auto dropped = nn::sequential(nn::dropout(0.5));
  auto drop = compile([&](Tensor x) { return dropped(x); });
  EXPECT_NE(message_of([&] { drop(zeros({2, 4})); }).find("dropout \"0\": has no 'counter' yet"), std::string::npos);
}

TEST(Module, AnotherInputSizeIsAnError) {
  auto model = perceptron();
  model.build({28, 28});
  EXPECT_EQ(message_of([&] {
              model(zeros({32, 24, 32}));
            }),
            "dense \"fc1\": expected 784 input features, got 768 (input shape [32, 768]).");
  auto images = perceptron();
  images.build({28, 28, 1});
  EXPECT_EQ(message_of([&] {
              images(zeros({32, 24, 32, 1}));
            }),
            "dense \"fc1\": expected 784 input features, got 768 (input shape [32, 768]).\n"
            "  The layer before it, flatten, gives 24×32×1 = 768; it gave 28×28×1 when this layer was made.");
  auto conv = nn::sequential(nn::conv2d(4));
  conv.build({8, 8, 3});
  EXPECT_EQ(message_of([&] {
              conv(zeros({2, 8, 8, 1}));
            }),
            "conv2d \"0\": expected 3 input channels, got 1 (input shape [2, 8, 8, 1]).");
  EXPECT_EQ(message_of([&] {
              conv(zeros({8, 8, 3}));
            }),
            "conv2d \"0\": expected input [N, H, W, C], got shape [8, 8, 3].");
  auto lstm = nn::lstm(4);
  lstm.build({3, 2});
  EXPECT_EQ(message_of([&] {
              lstm(zeros({2, 3, 5}));
            }),
            "lstm: expected 2 input features, got 5 (input shape [2, 3, 5]).");
  auto embedding = nn::embedding(10, 4);
  EXPECT_EQ(message_of([&] { embedding.build({3}); }),
            "embedding: expected integer token ids, got f32 [2, 3]. Build with {.dtype = i32}, and give ids as i32 or "
            "i64.");
}

TEST(Module, OperatorErrorsNameTheLayer) {
  auto model = nn::sequential(nn::sequential(nn::conv2d(4, {.kernel = 5, .padding = nn::valid})));
  const std::string message = message_of([&] { model.build({3, 3, 1}); });
  EXPECT_EQ(message.find("conv2d \"0.0\": the kernel does not fit the input"), 0u) << message;
}

TEST(Module, CopiesShare) {
  Residual original(4);
  Residual copy = original;
  copy.build({5, 5, 4});
  EXPECT_TRUE(original.built());
  EXPECT_TRUE(original.variable("first.weight").same(copy.variable("first.weight")));
  const Residual moved = std::move(copy);
  EXPECT_TRUE(moved.variable("first.weight").same(original.variable("first.weight")));
  auto list = nn::sequential(nn::dense(2));
  auto same = list;
  same.push(nn::dense(3));
  EXPECT_EQ(list(zeros({1, 4})).shape(), (Shape{1, 3}));
}

TEST(Module, ASharedLayerIsOne) {
  const nn::Dense shared(4);
  auto model = nn::sequential(shared, nn::activation(nn::tanh), shared);
  model.build({4});
  EXPECT_EQ(model.parameters().size(), 2u);
  EXPECT_EQ(model.parameter_count(), 20);
  EXPECT_EQ(paths(model), (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
}

TEST(Module, SeedsDecideTheStart) {
  const auto first_weights = [](std::int64_t seed) {
    auto model = perceptron();
    model.build({6}, {.seed = seed});
    return model.variable("fc1.weight").value().to_vector<float>();
  };
  EXPECT_EQ(first_weights(3), first_weights(3));
  EXPECT_NE(first_weights(3), first_weights(4));
  auto twins = nn::sequential(nn::dense(6), nn::dense(6));
  twins.build({6});
  EXPECT_NE(twins.variable("0.weight").value().to_vector<float>(),
            twins.variable("1.weight").value().to_vector<float>());
}

// Calls of two inputs go past operator(), and are calls all the same.
struct Decoder : nn::Module {
  nn::MultiHeadAttention first{2}, second{2};
  Decoder() {
    add("first", first);
    add("second", second);
  }
  Tensor forward(Tensor x, Mode mode) override { return second.attend(first.attend(x, x, mode), x, mode); }
};

TEST(Module, AttentionToAMemoryMakesItsParameters) {
  Decoder model;
  model.freeze("second.*");
  model.build({3, 4});
  EXPECT_TRUE(model.built());
  EXPECT_EQ(model.parameters().size(), 4u);
  EXPECT_EQ(model.parameters()[0].name(), "first.in_proj_weight");
  EXPECT_NE(model.variable("first.in_proj_weight").value().to_vector<float>(),
            model.variable("second.in_proj_weight").value().to_vector<float>());
}

TEST(Module, FreezesByPattern) {
  auto model = perceptron();
  model.freeze("fc1.*");  // before there is anything to freeze
  model.build({6});
  EXPECT_EQ(model.parameters().size(), 2u);
  EXPECT_EQ(model.parameters()[0].name(), "fc2.weight");
  EXPECT_EQ(model.parameter_count(), 6 * 8 + 8 + 8 * 3 + 3);
  model.unfreeze("*.bia?");
  EXPECT_EQ(model.parameters().size(), 3u);
  model.unfreeze();
  EXPECT_EQ(model.parameters().size(), 4u);
  EXPECT_EQ(message_of([&] { model.freeze("fc1.wieght"); }),
            "freeze: no parameter matches 'fc1.wieght'. Did you mean 'fc1.weight'?");
}

TEST(Module, WatchSeesAndReplaces) {
  auto model = nn::sequential(Residual(2), nn::flatten());
  model.build({3, 3, 2});
  std::vector<std::string> seen;
  Tensor y;
  {
    const nn::Watch watch([&](const nn::Watch::Call& call) {
      seen.push_back(std::to_string(call.depth) + " " + call.module.kind() + " " + call.path);
      return call.path == "1" ? call.y * 0 + 7 : call.y;
    });
    y = model(ones({1, 3, 3, 2}));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"2 conv2d 0.first", "2 conv2d 0.second", "1 module 0", "1 flatten 1",
                                            "0 sequential "}));
  expect_near(y, std::vector<double>(18, 7));
  EXPECT_NE(model(ones({1, 3, 3, 2})).to_vector<float>()[0], 7);
}

TEST(Module, RefusesNamesAndCycles) {
  nn::Sequential model;
  model.push(nn::dense(2), "a");
  EXPECT_EQ(message_of([&] { model.push(nn::dense(2), "a"); }), "sequential: has two modules named 'a'.");
  EXPECT_EQ(message_of([&] { model.push(nn::dense(2), "a.b"); }),
            "sequential: a module inside it cannot be named 'a.b': names are not empty and have no dot.");
  EXPECT_EQ(message_of([&] { model.push(model, "self"); }), "sequential: cannot hold itself as 'self'.");
  EXPECT_EQ(message_of([&] { model.push(nn::Layer(), "none"); }), "sequential: a layer of it is null.");
}

TEST(Combine, ResidualBranchesAndGraph) {
  const Tensor x = wave(0, {2, 3});
  const auto doubled = nn::function("double", [](const Tensor& t) { return t * 2; });
  expect_near(nn::residual(doubled)(x), x * 3);
  expect_near(nn::residual(doubled, nn::layer(doubled), nn::relu)(x), relu(x * 4));
  expect_near(nn::branches(nn::Join::concat, nn::identity(), doubled)(x), concat({x, x * 2}, 1));
  expect_near(nn::branches(nn::Join::add, nn::identity(), doubled)(x), x * 3);
  expect_near(nn::branches(nn::Join::multiply, nn::identity(), doubled)(x), x * x * 2);
  nn::Graph graph;
  graph.add_step({.name = "a", .layer = nn::layer(doubled), .from = {}})
      .add_step({.name = "b", .layer = nn::layer(doubled), .from = {}})
      .add_step({.name = "sum", .layer = nullptr, .from = {"input", "a", "b"}, .join = nn::Join::add});
  expect_near(graph(x), x * 7);
  EXPECT_EQ(message_of([&] { graph.add_step({.name = "c", .layer = nn::layer(doubled), .from = {"summ"}}); }),
            "graph: step 'c' takes its input from 'summ', which is no step before it. Did you mean 'sum'?");
  EXPECT_EQ(message_of([&] { graph.add_step({.name = "a", .layer = nn::layer(doubled), .from = {}}); }),
            "graph: the name 'a' is taken by an earlier step.");
  EXPECT_EQ(message_of([&] { nn::residual(nn::dense(4))(x); }),
            "residual: the body gives [2, 4], the shortcut [2, 3]: they must be equal to be added. A shortcut, such as "
            "a convolution of 1×1, can bring x to the body's shape.");
}

TEST(Module, BuiltForF64ItIsOfF64) {
  auto plain = nn::dense(2);
  plain.build({3}, {.dtype = f64});
  EXPECT_EQ(plain.variable("weight").type().dtype, f64);
  EXPECT_EQ(plain(zeros({1, 3}, f64)).dtype(), f64);
  auto model = nn::sequential(nn::conv2d(4, {.padding = nn::same}), nn::batch_norm({.activation = nn::relu}),
                              nn::layer_norm(), nn::flatten(), nn::dense(3));
  model.build({4, 4, 2}, {.dtype = f64, .seed = 2});
  for (const nn::NamedVariable& named : model.named_variables())
    EXPECT_EQ(named.variable.type().dtype, f64) << named.path;
  // Of f64, and not of f32 in f64's clothes: sums of f32 products would differ in the eighth digit.
  const Tensor x = normal({2, 4, 4, 2}, {.seed = 1, .dtype = f64});
  const Tensor y = model(x);
  EXPECT_EQ(y.dtype(), f64);
  auto dense = nn::dense(1, {.bias = false, .weight_init = nn::init::ones()});
  dense.build({2}, {.dtype = f64});
  EXPECT_EQ(dense(tensor<double>({1, 1e-12}).reshape({1, 2})).item<double>(), 1 + 1e-12);
  model(x, Mode::train).eval();  // running statistics too
  EXPECT_EQ(model.variable("1.running_mean").type().dtype, f64);
  auto recurrent = nn::lstm(3, {.stateful = true});
  recurrent.build({5, 2}, {.dtype = f64, .batch = 2});
  EXPECT_EQ(recurrent(zeros({2, 5, 2}, f64)).dtype(), f64);
  // Files keep what they are.
  const test::TemporaryFolder folder;
  dense.save(folder / "dense.safetensors");
  EXPECT_EQ(load_safetensors(folder / "dense.safetensors").tensors[0].second.dtype(), f64);
  // Everything else is as it was.
  auto single = nn::dense(2);
  single.build({3});
  EXPECT_EQ(single(zeros({1, 3}, f64)).dtype(), f32);
}

TEST(Module, ChildrenCanBeHadByName) {
  const nn::Layer shared = nn::layer(nn::dense(4));
  nn::Sequential model;
  model.push(shared)
      .push(nn::residual(nn::dense(4), shared), "block")
      .push(nn::branches(nn::Join::add, nn::dense(4), nn::dense(4)));
  const auto children = model.children();
  ASSERT_EQ(children.size(), 3u);
  EXPECT_EQ(children[0].second, shared);
  EXPECT_EQ(children[1].first, "block");
  EXPECT_EQ(children[1].second->children()[1].first, "shortcut");
  EXPECT_EQ(children[2].second->children().size(), 2u);
  const auto graph = nn::network_from_toml("input = [4]\n[[layer]]\nname = \"fc\"\ndense = 3\n", "net").network;
  EXPECT_EQ(graph.children().at(0).first, "fc");
}

TEST(Module, KnowsItsInput) {
  auto model = perceptron();
  EXPECT_FALSE(model.input());
  model.build({2, 3});
  EXPECT_EQ(*model.input(), (TensorType{f32, {2, 3}}));
}

TEST(Module, HooksSeeAndReplace) {
  auto model = perceptron();
  model.build({2, 3});
  int calls = 0;
  const nn::Layer last = model.children()[2].second;
  const std::int64_t seeing = last->hook([&](const nn::Module& module, const Tensor& x, const Tensor& y) {
    EXPECT_EQ(&module, last.get());
    EXPECT_EQ(x.shape(), (Shape{1, 8}));
    EXPECT_EQ(y.shape(), (Shape{1, 3}));
    ++calls;
    return Tensor();
  });
  const Tensor plain = model(ones({1, 2, 3}));
  const std::int64_t doubling = last->hook([](const nn::Module&, const Tensor&, const Tensor& y) { return y * 2; });
  EXPECT_EQ(model(ones({1, 2, 3})).to_vector<float>(), (plain * 2).to_vector<float>());
  last->unhook(doubling);
  last->unhook(seeing);
  last->unhook(12345);
  EXPECT_EQ(model(ones({1, 2, 3})).to_vector<float>(), plain.to_vector<float>());
  EXPECT_EQ(calls, 2);
  EXPECT_THROW(last->hook({}), Error);
}

TEST(Module, WeightsWithoutAFile) {
  auto model = perceptron(), other = perceptron();
  model.build({2, 3}, {.seed = 1});
  other.build({2, 3}, {.seed = 2});
  other.set_weights(model.weights({.dtype = f32, .pytorch = true, .metadata = {}}), {.pytorch = true});
  EXPECT_EQ(model(ones({1, 2, 3})).to_vector<float>(), other(ones({1, 2, 3})).to_vector<float>());
  const std::string message = message_of([&] { other.set_weights({{{"fc1.weights", ones({6, 8})}}, {}}, {}, "mine"); });
  EXPECT_NE(message.find("load 'mine'"), std::string::npos);
  EXPECT_NE(message.find("nearest: fc1.weight"), std::string::npos);
}

TEST(Module, NetworkTextMayNameOnesOwn) {
  const std::string text =
      "input = [2]\n[[layer]]\ndense = {out = 2, weight_init = \"halves\", activation = \"twice\"}\n";
  EXPECT_NE(message_of([&] { nn::network_from_toml(text, "net"); }).find("twice"), std::string::npos);
  const nn::OwnNames own({{"halves", nn::init::constant(0.5)}},
                         {{"twice", {"twice", [](const Tensor& x) { return x * 2; }}}});
  auto network = nn::network_from_toml(text, "net").network;
  EXPECT_EQ(network(ones({1, 2})).to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(DeepCopy, SharesNothingAndKeepsWhatIsShared) {
  const nn::Dense tied(4);
  auto model = nn::sequential(tied, nn::residual(nn::sequential(tied, nn::batch_norm())), Residual(4), tied);
  const Tensor x = uniform({2, 3, 3, 4}, {.seed = 1});
  const Tensor before = model(x).eval();
  nn::Sequential copy = nn::deep_copy(model);
  EXPECT_EQ(copy(x).to_vector<float>(), before.to_vector<float>());
  EXPECT_EQ(copy.parameter_count(), model.parameter_count());
  EXPECT_EQ(paths(copy), paths(model));
  for (const Variable& own : copy.parameters())
    for (const Variable& other : model.parameters()) EXPECT_FALSE(own.same(other)) << own.name();
  EXPECT_TRUE(copy.variable("0.weight").same(copy.variable("3.weight")));
  for (Variable& own : copy.parameters()) own.assign(zeros(own.shape()));
  EXPECT_EQ(model(x).to_vector<float>(), before.to_vector<float>());
  EXPECT_NE(copy(x).to_vector<float>(), before.to_vector<float>());
}

// A variable that a module holds as a member, and one in a function that it was given.
struct Scaled : nn::Module {
  Variable scale{"scale", tensor({2.f})};
  Scaled() { share("scale", scale); }
  Tensor forward(Tensor x, Mode) override { return x * scale; }
};

TEST(DeepCopy, FollowsMembersAndFunctions) {
  Scaled one;
  Scaled other = nn::deep_copy(one);
  other.scale.assign(tensor({5.f}));
  EXPECT_EQ(one(ones({1})).item<float>(), 2);
  EXPECT_EQ(other(ones({1})).item<float>(), 5);
  EXPECT_TRUE(other.variable("scale").same(other.scale));
  const nn::Layer held = nn::layer(nn::sequential(one)), again = nn::deep_copy(held);
  again->variable("0.scale").assign(tensor({7.f}));
  EXPECT_EQ((*held)(ones({1})).item<float>(), 2);
}

struct ByPointer : nn::Module {
  nn::Layer inner = nn::layer(nn::dense(2));
  ByPointer() { add("inner", *inner); }
  Tensor forward(Tensor x, Mode mode) override { return (*inner)(x, mode); }
};

TEST(DeepCopy, AModuleHeldByAPointerIsRefused) {
  EXPECT_EQ(message_of([] { nn::deep_copy(ByPointer()); }),
            "deep_copy: the module \"inner\" (dense) is held by a pointer, which both models would share: hold it as a "
            "member or as an nn::HeldLayer.");
}

TEST(Module, HooksSeeGradients) {
  auto model = nn::sequential(nn::dense(3), nn::dense(1));
  model.build({2});
  std::vector<std::string> seen;
  const std::int64_t number = model[0].hook_gradient([&](const std::string& path, const Tensor& dy) {
    seen.push_back(path + " " + dy.shape().str());
    return dy * 2;
  });
  const Tensor x = ones({4, 2});
  const auto gradient = [&] {
    return value_and_grad([&] { return sum(model(x, Mode::train)); }, {model.variable("0.weight")}).second[0].eval();
  };
  const auto hooked = gradient().to_vector<float>();
  EXPECT_EQ(seen, (std::vector<std::string>{"0 [4, 3]"}));
  model[0].unhook(number);
  const auto plain = gradient().to_vector<float>();
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(hooked[i], 2 * plain[i]);
  EXPECT_EQ(seen.size(), 1u);
}

TEST(Combine, AClassOfASequentialMayOverrideForward) {
  struct Beside : nn::Sequential {
    Beside() { push(nn::dense(2)); }
    Tensor forward(Tensor x, Mode mode) override { return concat({x, nn::Sequential::forward(x, mode)}, -1); }
  };
  auto model = nn::sequential(Beside(), nn::dense(1));
  model.build({3});
  EXPECT_EQ(model.variable("1.weight").shape(), (Shape{5, 1}));
}

}  // namespace
}  // namespace varve::nn_tests
