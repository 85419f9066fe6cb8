// The same numbers as torchvision's networks give: weights come from a formula of their PyTorch names, so that a wrong
// name, layout, padding or order shows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "zoo/small.h"

namespace varve::zoo_tests {
namespace {

// In ±1, by name and position in PyTorch's layout.
std::vector<double> values(const std::string& name, std::int64_t count) {
  std::int64_t key = 0;
  for (std::size_t i = 0; i < name.size(); ++i) key += static_cast<std::int64_t>(i + 1) * name[i];
  std::vector<double> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double s = std::sin(static_cast<double>(i) * 12.9898 + static_cast<double>(key % 997) * 78.233) * 43758.5453;
    v[i] = 2 * (s - std::floor(s)) - 1;
  }
  return v;
}

Tensor floats(const std::vector<double>& v, const Shape& shape) {
  return tensor(std::vector<float>(v.begin(), v.end()), shape);
}

// Statistics, scales and biases near what a trained network has; kernels in ±√(6 / fan-in).
Tensor weight(const std::string& name, const Shape& shape) {
  std::vector<double> v = values(name, shape.numel());
  double scale = 0.1, shift = 0;
  if (name.ends_with("running_var")) {
    scale = 0.5, shift = 1;
  } else if (shape.rank() > 1) {
    scale = std::sqrt(6 / (static_cast<double>(v.size()) / static_cast<double>(shape[0])));
  } else if (name.ends_with("weight")) {
    shift = 1;
  }
  for (double& x : v) x = shift + scale * x;
  return floats(v, shape);
}

Shape in_pytorch(const nn::NamedVariable& named) {
  const Shape& s = named.variable.shape();
  if (named.foreign.kind == nn::ForeignLayout::conv) return {s[0], s[3], s[1], s[2]};
  if (named.foreign.kind == nn::ForeignLayout::transposed) return {s[1], s[0]};
  return s;
}

struct ExpectedCount {
  std::string network;
  std::int64_t size;
  std::vector<double> logits;  // the first six of each of two images
};

class Torchvision : public testing::TestWithParam<ExpectedCount> {};

TEST_P(Torchvision, GivesTheSame) {
  const auto& [network, size, logits] = GetParam();
  const nn::Layer model = zoo::make(network);
  model->build({size, size, 3});
  Safetensors weights;
  for (const nn::NamedVariable& named : model->named_variables())
    if (!named.path.ends_with("counter"))
      weights.tensors.emplace_back(named.path, weight(named.path, in_pytorch(named)));
  const std::string path = testing::TempDir() + "/torchvision_" + as_test_name(network) + ".safetensors";
  save_safetensors(path, weights);
  model->load(path, {.pytorch = true});
  std::remove(path.c_str());
  const Tensor x = floats(values("x", 2 * size * size * 3), {2, size, size, 3});
  const std::vector<float> y = (*model)(x).to_vector<float>();
  ASSERT_EQ(y.size(), 2000u);
  double largest = 0;
  for (const double logit : logits) largest = std::max(largest, std::abs(logit));
  for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(y[i / 6 * 1000 + i % 6], logits[i], 1e-4 * largest) << i;
}

// torchvision 0.26, evaluated in float64.
INSTANTIATE_TEST_SUITE_P(
    Zoo, Torchvision,
    testing::Values(ExpectedCount{"resnet18",
                                  64,
                                  {65.55284614111422, 22.631261583282843, 13.231394098997361, 26.426792646346946,
                                   -24.14693122844338, -27.160458250234804, 68.73117465743367, 30.3821467493014,
                                   11.711096492586549, 30.692030991831132, -25.685759535231316, -31.491250471300198}},
                    ExpectedCount{"resnet50",
                                  64,
                                  {7014.389842068775, 1480.5604316450556, 397.3952717804075, -429.97365802942863,
                                   -1108.526816696575, 1964.396936558342, 7326.012288199256, 1558.7029436943858,
                                   316.95984563575735, -439.5515289660219, -1098.2097615822563, 2086.1461896252636}},
                    ExpectedCount{"googlenet",
                                  64,
                                  {20.597046954479673, 18.214313371843513, 14.564893178404361, 22.464149785486526,
                                   10.140006075585363, 6.261569260185008, 19.128209297805924, 18.145774789675805,
                                   14.029347828559452, 21.30694963809875, 10.099511923775172, 6.451407167988831}},
                    ExpectedCount{"inception3",
                                  75,
                                  {0.13763460882698184, 0.14071043947687178, -0.7075946481914904, 0.32558884962799334,
                                   -1.0365199907948979, 0.5332835161581603, 0.11405264502475476, 0.18145501414976772,
                                   -0.6606985302952174, 0.3317951157629062, -1.012710223181371, 0.47917661395252487}}),
    [](const auto& test) { return as_test_name(test.param.network); });

}  // namespace
}  // namespace varve::zoo_tests
