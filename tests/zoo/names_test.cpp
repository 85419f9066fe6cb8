// Children are named as in torchvision, so that its files load.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "zoo/small.h"

namespace varve::zoo_tests {
namespace {

struct Expected {
  std::string network;
  std::int64_t classes;
  std::size_t variables;  // in torchvision's state_dict, without num_batches_tracked
  std::vector<std::pair<std::string, Shape>> some;
};

class TorchvisionNames : public testing::TestWithParam<Expected> {};

TEST_P(TorchvisionNames, AreUsed) {
  const Expected& expected = GetParam();
  const nn::Layer model = zoo::make(expected.network, {{"classes", static_cast<double>(expected.classes)}});
  model->build(zoo::find(expected.network).smallest);
  std::set<std::string> paths;
  for (const nn::NamedVariable& named : model->named_variables())
    if (!named.path.ends_with("counter")) paths.insert(named.path);
  EXPECT_EQ(paths.size(), expected.variables);
  for (const auto& [path, shape] : expected.some) EXPECT_EQ(model->variable(path).shape(), shape) << path;
}

INSTANTIATE_TEST_SUITE_P(Zoo, TorchvisionNames,
                         testing::Values(Expected{"resnet18",
                                                  1000,
                                                  102,
                                                  {{"conv1.weight", {64, 7, 7, 3}},
                                                   {"layer1.0.conv2.weight", {64, 3, 3, 64}},
                                                   {"layer2.0.downsample.0.weight", {128, 1, 1, 64}},
                                                   {"layer2.0.downsample.1.running_mean", {128}},
                                                   {"layer4.1.bn2.running_var", {512}},
                                                   {"fc.weight", {512, 1000}}}},
                                         Expected{"resnet50",
                                                  1000,
                                                  267,
                                                  {{"bn1.weight", {64}},
                                                   {"layer1.0.downsample.0.weight", {256, 1, 1, 64}},
                                                   {"layer3.5.conv3.weight", {1024, 1, 1, 256}},
                                                   {"layer4.2.bn3.bias", {2048}},
                                                   {"fc.bias", {1000}}}},
                                         Expected{"vgg16",
                                                  1000,
                                                  32,
                                                  {{"features.0.weight", {64, 3, 3, 3}},
                                                   {"features.28.weight", {512, 3, 3, 512}},
                                                   {"classifier.3.weight", {4096, 4096}},
                                                   {"classifier.6.bias", {1000}}}},
                                         Expected{"googlenet",
                                                  1000,
                                                  287,
                                                  {{"conv1.conv.weight", {64, 7, 7, 3}},
                                                   {"inception3a.branch2.1.conv.weight", {128, 3, 3, 96}},
                                                   {"inception4e.branch4.1.bn.weight", {128}},
                                                   {"fc.weight", {1024, 1000}}}},
                                         Expected{"inception3",
                                                  1000,
                                                  472,
                                                  {{"Conv2d_1a_3x3.conv.weight", {32, 3, 3, 3}},
                                                   {"Mixed_5b.branch5x5_2.conv.weight", {64, 5, 5, 48}},
                                                   {"Mixed_6e.branch7x7dbl_5.conv.weight", {192, 1, 7, 192}},
                                                   {"Mixed_7c.branch3x3dbl_3b.bn.running_var", {384}}}},
                                         Expected{"mobilenet2",
                                                  1000,
                                                  262,
                                                  {{"features.0.0.weight", {32, 3, 3, 3}},
                                                   {"features.1.conv.0.0.weight", {32, 3, 3, 1}},
                                                   {"features.1.conv.1.weight", {16, 1, 1, 32}},
                                                   {"features.1.conv.2.running_mean", {16}},
                                                   {"features.17.conv.3.weight", {320}},
                                                   {"features.18.1.bias", {1280}},
                                                   {"classifier.1.weight", {1280, 1000}}}},
                                         Expected{"densenet121",
                                                  1000,
                                                  606,
                                                  {{"features.conv0.weight", {64, 7, 7, 3}},
                                                   {"features.denseblock3.denselayer24.conv1.weight", {128, 1, 1, 992}},
                                                   {"features.transition2.norm.weight", {512}},
                                                   {"features.norm5.running_var", {1024}},
                                                   {"classifier.weight", {1024, 1000}}}},
                                         Expected{"shufflenet2",
                                                  1000,
                                                  282,
                                                  {{"conv1.0.weight", {24, 3, 3, 3}},
                                                   {"stage2.0.branch1.2.weight", {58, 1, 1, 24}},
                                                   {"stage3.7.branch2.6.running_mean", {116}},
                                                   {"conv5.0.weight", {1024, 1, 1, 464}},
                                                   {"fc.weight", {1024, 1000}}}},
                                         Expected{"squeezenet1.0",
                                                  1000,
                                                  52,
                                                  {{"features.0.weight", {96, 7, 7, 3}},
                                                   {"features.12.expand3x3.weight", {256, 3, 3, 64}},
                                                   {"classifier.1.bias", {1000}}}},
                                         Expected{"squeezenet1.1",
                                                  1000,
                                                  52,
                                                  {{"features.0.weight", {64, 3, 3, 3}},
                                                   {"features.9.squeeze.weight", {48, 1, 1, 256}}}}),
                         [](const auto& test) { return as_test_name(test.param.network); });

class SavedAsPyTorch : public testing::TestWithParam<std::string> {};

TEST_P(SavedAsPyTorch, ComesBack) {
  const zoo::Entry& entry = zoo::find(GetParam());
  const Sizes sizes = entry.dtype == i32 ? Sizes{{"vocabulary", 50}, {"width", 16}} : Sizes{{"classes", 10}};
  const nn::Layer one = zoo::make(entry.name, sizes), other = zoo::make(entry.name, sizes);
  one->build(entry.smallest, {.dtype = entry.dtype, .seed = 1});
  other->build(entry.smallest, {.dtype = entry.dtype, .seed = 2});
  Shape batch{2};
  for (const std::int64_t size : entry.smallest) batch.push_back(size);
  const Tensor x =
      entry.dtype == i32 ? cast(floor(uniform(batch, {.seed = 3}) * 50), i32) : uniform(batch, {.seed = 3});
  x.eval();
  const std::vector<float> wanted = (*one)(x).to_vector<float>();
  EXPECT_NE((*other)(x).to_vector<float>(), wanted);
  const std::string path = testing::TempDir() + "/zoo_" + as_test_name(entry.name) + ".safetensors";
  one->save(path, {.pytorch = true});
  other->load(path, {.pytorch = true});
  std::remove(path.c_str());
  one->reset_state();
  other->reset_state();
  const std::vector<float> got = (*other)(x).to_vector<float>();
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Zoo, SavedAsPyTorch,
                         testing::Values("resnet18", "googlenet", "mobilenet2", "densenet121", "shufflenet2",
                                         "squeezenet1.1", "gpt-small", "ptb-large", "seq2seq"),
                         test_name);

}  // namespace
}  // namespace varve::zoo_tests
