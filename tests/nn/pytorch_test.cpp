// Networks with PyTorch's weights give PyTorch's outputs. pytorch/make.py wrote the files.
#include <algorithm>

#include "helpers.h"

namespace varve::nn_tests {
namespace {

struct Case {
  std::string name;
  std::function<nn::Sequential()> make;
};

nn::Sequential recurrent(const nn::Recurrent& rnn) {
  nn::Sequential model;
  model.push(nn::embedding(20, 6), "embedding").push(rnn, "rnn").push(nn::dense(3), "fc");
  return model;
}

// The files name the variables of the layer itself.
nn::Sequential transformer(bool norm_first) {
  return nn::sequential(nn::transformer_block(8, {.heads = 2, .hidden = 16, .causal = true, .norm_first = norm_first}));
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"convnet",
       [] {
         return nn::sequential(
             nn::conv2d(8, {.kernel = {3, 2}, .padding = 1, .bias = false}), nn::batch_norm(), nn::activation(nn::relu),
             nn::max_pool2d(2), nn::conv2d(12, {.kernel = 3, .padding = nn::valid, .groups = 2}),
             nn::activation(nn::tanh), nn::flatten(), nn::batch_norm(), nn::dropout(0.5), nn::dense(5));
       }},
      {"deconvnet",
       [] {
         return nn::sequential(
             nn::conv2d_transpose(4, {.kernel = {3, 2}, .stride = 2, .padding = {1, 0}, .output_padding = {1, 1}}),
             nn::group_norm(2));
       }},
      {"conv1d",
       [] {
         return nn::sequential(nn::conv1d(4, {.kernel = 3, .dilation = 2, .padding = 2}), nn::activation(nn::gelu));
       }},
      {"volumes",
       [] {
         return nn::sequential(
             nn::conv3d(4, {.kernel = {2, 3, 1}, .stride = {1, 2, 1}, .padding = {1, 1, 0}, .groups = 2}),
             nn::max_pool3d({2, 1, 2}, {.ceil_mode = true}), nn::activation(nn::relu),
             nn::avg_pool3d(2, {.stride = 1, .padding = 1}), nn::resize({.scale = 1.5}),
             nn::conv3d(3, {.kernel = 1, .bias = false}));
       }},
      {"lstm", [] { return recurrent(nn::lstm(5, {.layers = 2, .bidirectional = true, .sequences = false})); }},
      {"gru", [] { return recurrent(nn::gru(5, {.layers = 2, .sequences = false})); }},
      {"rnn", [] { return recurrent(nn::rnn(5, {.sequences = false, .relu = true})); }},
      {"transformer_pre", [] { return transformer(true); }},
      {"transformer_post", [] { return transformer(false); }},
  };
  return all;
}

std::string file(const std::string& name) {
  return std::string(VARVE_TESTS_DIR) + "/nn/pytorch/" + name + ".safetensors";
}

Shape sample_of(const Tensor& x) { return Shape(std::vector<std::int64_t>(x.shape().begin() + 1, x.shape().end())); }

class PyTorch : public FilesTest, public testing::WithParamInterface<Case> {};

TEST_P(PyTorch, SameOutputFromItsWeights) {
  const Safetensors io = load_safetensors(file(GetParam().name + "_io"));
  const Tensor x = *io.find("x"), expected = *io.find("y");
  nn::Sequential model = GetParam().make();
  model.build(sample_of(x), {.dtype = x.dtype()});
  nn::Module& root = GetParam().name.starts_with("transformer") ? model[0] : model;
  root.load(file(GetParam().name), {.pytorch = true});
  expect_near(model(x), expected, 1e-5);
}

TEST_P(PyTorch, SavesWhatItLoaded) {
  const Tensor x = *load_safetensors(file(GetParam().name + "_io")).find("x");
  nn::Sequential model = GetParam().make(), again = GetParam().make();
  model.build(sample_of(x), {.dtype = x.dtype(), .seed = 1});
  again.build(sample_of(x), {.dtype = x.dtype(), .seed = 2});
  const std::string saved = path("saved.safetensors");
  model.save(saved, {.pytorch = true});
  EXPECT_EQ(message_of([&] { again.load(saved); }),
            "load '" + saved + "': was saved in PyTorch's layouts; load it with {.pytorch = true}.");
  again.load(saved, {.pytorch = true});
  expect_near(again(x), model(x));
  // Every name and shape that PyTorch wrote, but for the counts of batches.
  const Safetensors theirs = load_safetensors(file(GetParam().name)), ours = load_safetensors(saved);
  const std::string root = GetParam().name.starts_with("transformer") ? "0." : "";
  for (const auto& [name, tensor] : theirs.tensors) {
    if (name.find("num_batches_tracked") != std::string::npos) continue;
    ASSERT_NE(ours.find(root + name), nullptr) << name;
    EXPECT_EQ(ours.find(root + name)->shape(), tensor.shape()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, PyTorch, testing::ValuesIn(cases()), [](const auto& row) { return row.param.name; });

TEST(PyTorchFiles, OtherLayoutsAreNamed) {
  nn::Sequential model = cases()[0].make();
  model.build({9, 10, 3});
  EXPECT_EQ(message_of([&] { model.load(file("convnet"), {.partial = false}); }),
            "load '" + file("convnet") +
                "': expected '0.weight' as f32 [8, 3, 2, 3], got f32 [8, 3, 3, 2]. That is PyTorch's layout: load with "
                "{.pytorch = true}.");
}

using PyTorchDamage = FilesTest;

TEST_F(PyTorchDamage, BothBiasesMustFit) {
  Safetensors theirs = load_safetensors(file("lstm"));
  for (auto& [name, tensor] : theirs.tensors)
    if (name == "rnn.bias_hh_l1") tensor = zeros({3});
  save_safetensors(path("w"), theirs);
  const auto lstm =
      std::find_if(cases().begin(), cases().end(), [](const Case& c) { return c.name == std::string("lstm"); });
  nn::Sequential model = lstm->make();
  model.build({7}, {.dtype = i32});
  EXPECT_EQ(message_of([&] { model.load(path("w"), {.pytorch = true}); }),
            "load '" + path("w") + "': expected 'rnn.bias_hh_l1' as f32 [20], got f32 [3].");
}

}  // namespace
}  // namespace varve::nn_tests
