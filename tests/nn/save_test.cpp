// Weights in files.
#include "helpers.h"

namespace varve::nn_tests {
namespace {

// Tied: the output layer of a language model is its embedding.
nn::Sequential language_model() {
  nn::Embedding embedding(7, 4);
  nn::Sequential model;
  model.push(embedding, "embedding").push(nn::dropout(0.1), "drop");
  model.push(nn::lstm(4, {.stateful = true}), "rnn").push(nn::TiedDense(embedding, true), "decoder");
  return model;
}

nn::Sequential built(std::int64_t seed) {
  auto model = language_model();
  model.build({5}, {.dtype = i32, .seed = seed});
  return model;
}

Tensor ids() { return tensor({1, 2, 3, 4, 5, 6, 5, 4, 3, 2}).to(i32).reshape({2, 5}); }

using Save = FilesTest;

TEST_F(Save, WeightsComeBack) {
  auto model = built(1), other = built(2);
  model.save(path("w"), {.metadata = {{"note", "hello"}}});
  const Tensor expected = model(ids()).eval();
  other.load(path("w"));
  expect_near(other(ids()), expected);
  EXPECT_EQ(load_safetensors_metadata(path("w")).at("note"), "hello");
}

TEST_F(Save, HoldsNeitherCountersNorCarriedStates) {
  auto model = nn::sequential(nn::batch_norm(), nn::dropout(0.5), nn::lstm(2, {.stateful = true}));
  model.build({3, 2});
  model.save(path("w"));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : load_safetensors(path("w")).tensors) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "0.running_mean", "0.running_var", "2.weight_ih_l0",
                                             "2.weight_hh_l0", "2.bias_ih_l0"}));
}

TEST_F(Save, TiedWeightsAreStoredOnce) {
  auto model = built(1);
  EXPECT_TRUE(model.variable("embedding.weight").same(model.variable("decoder.weight")));
  EXPECT_EQ(model.parameters().size(), 5u);
  model.save(path("w"));
  Safetensors file = load_safetensors(path("w"));
  EXPECT_EQ(file.metadata.at("varve.aliases"), "decoder.weight=embedding.weight");
  EXPECT_EQ(file.find("decoder.weight"), nullptr);

  // Others name it differently, or store it under both names.
  for (auto& [name, tensor] : file.tensors)
    if (name == "embedding.weight") name = "decoder.weight";
  file.metadata.clear();
  save_safetensors(path("renamed"), file);
  file.tensors.emplace_back("embedding.weight", *file.find("decoder.weight"));
  save_safetensors(path("both"), file);
  for (const char* name : {"renamed", "both"}) {
    auto other = built(2);
    other.load(path(name));
    expect_near(other.variable("embedding.weight"), model.variable("embedding.weight"), 0);
  }

  // And a model that does not tie reads it twice.
  nn::Sequential untied;
  untied.push(nn::embedding(7, 4), "embedding").push(nn::lstm(4), "rnn");
  untied.push(nn::TiedDense(nn::embedding(7, 4), true), "decoder");
  untied.build({5}, {.dtype = i32});
  untied.load(path("w"));
  expect_near(untied.variable("decoder.weight"), model.variable("embedding.weight"), 0);
}

TEST_F(Save, SixteenBits) {
  auto model = built(1), other = built(2);
  model.save(path("w"), {.dtype = bf16});
  EXPECT_EQ(load_safetensors(path("w")).find("rnn.weight_ih_l0")->dtype(), bf16);
  other.load(path("w"));
  EXPECT_EQ(other.variable("rnn.weight_ih_l0").type().dtype, f32);
  expect_near(other.variable("rnn.weight_ih_l0"), model.variable("rnn.weight_ih_l0"), 0.01);
}

TEST_F(Save, AllOrNothing) {
  nn::Sequential small, large;
  small.push(nn::dense(3), "fc1").push(nn::dense(2), "fc2");
  large.push(nn::dense(3), "fc1").push(nn::dense(5), "fc2").push(nn::dense(2), "fc3");
  small.build({4}, {.seed = 1});
  large.build({4}, {.seed = 2});
  small.save(path("w"));
  const std::vector<float> before = large.variable("fc1.weight").value().to_vector<float>();
  EXPECT_EQ(message_of([&] { large.load(path("w")); }),
            "load '" + path("w") + "': expected 'fc2.weight' as f32 [3, 5], got f32 [3, 2].");
  EXPECT_EQ(large.variable("fc1.weight").value().to_vector<float>(), before);

  const nn::Loaded loaded = large.load(path("w"), {.partial = true});
  EXPECT_EQ(loaded.missing, (std::vector<std::string>{"fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"}));
  EXPECT_EQ(loaded.unexpected, (std::vector<std::string>{"fc2.weight", "fc2.bias"}));
  expect_near(large.variable("fc1.weight"), small.variable("fc1.weight"), 0);
}

TEST_F(Save, NamesWhatDiffers) {
  nn::Sequential model, renamed;
  model.push(nn::dense(3, {.bias = false}), "fc1");
  renamed.push(nn::dense(3, {.bias = false}), "fc_1");
  model.build({4});
  renamed.build({4});
  model.save(path("w"));
  EXPECT_EQ(message_of([&] { renamed.load(path("w")); }),
            "load '" + path("w") +
                "': the file and the model differ; nothing was loaded.\n"
                "  missing in the file: fc_1.weight (nearest: fc1.weight).\n"
                "  not in the model: fc1.weight (nearest: fc_1.weight).\n"
                "  To load what fits: load(path, {.partial = true}), or reinitialize_mismatched=true for the command.");
  EXPECT_EQ(message_of([&] { model.load(path("w"), {.pytorch = true}); }),
            "load '" + path("w") + "': was saved in Varve's layouts; load it without {.pytorch = true}.");
  EXPECT_NE(message_of([&] { model.load(path("none")); }), "no error");
}

TEST_F(Save, NeedsVariables) {
  auto model = nn::sequential(nn::dense(2));
  EXPECT_EQ(message_of([&] { model.save(path("w")); }),
            "sequential: save() before its variables are made. Call build({…}) with the shape of a sample, or run a "
            "batch, first.");
  model.build({3});
  EXPECT_EQ(message_of([&] { model.save(path("w"), {.dtype = i32}); }),
            "save: expected dtype f32, f16 or bf16, got i32.");
}

}  // namespace
}  // namespace varve::nn_tests
