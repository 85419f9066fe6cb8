// Every network has exactly as many parameters as its paper's or torchvision's has.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "zoo/small.h"

namespace varve::zoo_tests {
namespace {

class Parameters : public testing::TestWithParam<std::string> {};

TEST_P(Parameters, AreAsManyAsTheEntrySays) {
  const zoo::Entry& entry = zoo::find(GetParam());
  const nn::Layer model = zoo::make(entry.name);
  EXPECT_FALSE(model->built());
  model->build(entry.input, {.dtype = entry.dtype});
  EXPECT_EQ(model->parameter_count(), entry.parameters);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Parameters, testing::ValuesIn(names()), test_name);

// As published: by torchvision for its models (Inception and GoogLeNet without auxiliary heads), by Keras without its
// non-trainable ones for Xception and MobileNet v1, by the papers' arithmetic for the others.
TEST(Zoo, HoldsThePublishedCounts) {
  const std::map<std::string, std::int64_t> published = {
      {"alexnet", 62378344},    {"overfeat", 145920872},    {"vgg11", 132863336},       {"vgg13", 133047848},
      {"vgg16", 138357544},     {"vgg19", 143667240},       {"googlenet", 6624904},     {"inception3", 23834568},
      {"resnet18", 11689512},   {"resnet34", 21797672},     {"resnet50", 25557032},     {"resnet101", 44549160},
      {"resnet152", 60192808},  {"resnet20", 269722},       {"resnet56", 853018},       {"xception", 22855952},
      {"mobilenet1", 4231976},  {"mobilenet2", 3504872},    {"densenet121", 7978856},   {"shufflenet1", 1865728},
      {"shufflenet2", 2278604}, {"squeezenet1.0", 1248424}, {"squeezenet1.1", 1235496}, {"lenet5", 61706},
      {"fcn5", 117997696},      {"fcn8", 130586752},        {"lstm32", 6180624},        {"lstm64", 6180624}};
  for (const auto& [name, count] : published) EXPECT_EQ(zoo::find(name).parameters, count) << name;
}

TEST(Zoo, EveryWorkloadIsThere) {
  for (const char* name : {"cnn-mnist",
                           "cnn-cifar",
                           "fnn-mnist",
                           "vgg16-cifar",
                           "vgg16-bn-cifar",
                           "lstm-imdb",
                           "fcn5",
                           "fcn8",
                           "alexnet",
                           "resnet50",
                           "lstm32",
                           "lstm64",
                           "ptb-small",
                           "ptb-medium",
                           "ptb-large",
                           "autoencoder-mnist",
                           "fcn-scaling",
                           "gpt-small",
                           "lenet5",
                           "rnn",
                           "gru",
                           "lstm",
                           "rbm",
                           "seq2seq"})
    EXPECT_EQ(zoo::find(name).name, name);
}

TEST(Zoo, NamesAreUnique) {
  const std::vector<std::string> all = names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Zoo, RefusalsNameWhatIsNear) {
  EXPECT_EQ(error_of([] { zoo::make("resnet51"); }), "zoo: there is no network 'resnet51'. Did you mean 'resnet50'?");
  EXPECT_EQ(error_of([] {
              zoo::make("fnn-mnist", {{"widths", 3}});
            }),
            "zoo: fnn-mnist has no size 'widths'. Did you mean 'width'?");
  EXPECT_EQ(error_of([] { zoo::make("lenet5", {{"heads", 3}}); }), "zoo: lenet5 has no size 'heads'. It has classes.");
}

TEST(Zoo, SizesOutOfBoundsAreRefused) {
  for (const double bad : {0.0, -3.0, 2.5, 1e30, std::nan("")})
    EXPECT_NE(error_of([&] {
                zoo::make("fnn-mnist", {{"width", bad}});
              }).find("zoo: width must be a whole number"),
              std::string::npos)
        << bad;
  EXPECT_EQ(error_of([] {
              zoo::make("mobilenet2", {{"multiplier", 0}});
            }),
            "zoo: multiplier must be more than 0 and at most 16, got 0.");
  EXPECT_EQ(error_of([] {
              zoo::make("gpt-small", {{"dropout", 1.5}});
            }),
            "zoo: dropout must be from 0 to less than 1, got 1.5.");
  EXPECT_EQ(error_of([] { zoo::make("rbm", {{"classes", 10}}); }), "zoo: rbm has no classes: it gives back its input.");
}

TEST(Zoo, ClassesAndSizesAreHeard) {
  const nn::Layer network = zoo::make("fcn-scaling", {{"depth", 3}, {"width", 8}, {"classes", 5}});
  network->build({28, 28, 1});
  EXPECT_EQ(network->parameter_count(), 784 * 8 + 8 + 2 * (8 * 8 + 8) + 8 * 5 + 5);
}

}  // namespace
}  // namespace varve::zoo_tests
