// Every benchmark network, small: its whole step is one program, its loss falls, both backends agree.
#include <gtest/gtest.h>

#include "networks.h"

namespace varve::networks {
namespace {

struct Case {
  const char* name;
  Network (*make)();
  double rate;
  // Steps over which backends must agree. Rectifiers after normalised sums of few samples lie near zero often enough
  // that a last digit decides which way some point, so that network is compared before its first update only.
  std::size_t agreeing = 4;
};

class Networks : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override { set_device("cpu"); }
};

TEST_P(Networks, LossFallsAndBackendsAgree) {
  std::vector<double> first;
  for (const char* where : {"reference", "cpu"}) {
    set_device(where);
    Trainer trainer(GetParam().make(), GetParam().rate);
    std::vector<double> losses;
    for (int i = 0; i < 4; ++i) losses.push_back(trainer.step());
    EXPECT_LT(losses.back(), losses.front()) << where;
    if (first.empty()) first = losses;
    for (std::size_t i = 0; i < GetParam().agreeing; ++i)
      EXPECT_NEAR(losses[i], first[i], 2e-3 * std::abs(first[i])) << where << ", step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Networks,
                         testing::Values(Case{"fcn", [] { return fcn(8, 20, 16, 3); }, 0.5},
                                         Case{"cnn", [] { return cnn(4, 8, 1, 4); }, 1e-2},
                                         Case{"vgg16", [] { return vgg16(2, 32, 2); }, 1e-3},
                                         Case{"alexnet", [] { return alexnet(2, 64, 2, 10); }, 1e-2},
                                         Case{"resnet50", [] { return resnet50(8, 32, 4, 10); }, 1e-4, 1},
                                         Case{"lstm", [] { return lstm_language(3, 5, 11, 4); }, 0.5},
                                         Case{"lstm_classifier", [] { return lstm_classifier(4, 6, 11, 3, 5); }, 1e-2},
                                         Case{"autoencoder",
                                              [] {
                                                return autoencoder(4, {20, 8, 4, 8, 20});
                                              },
                                              1e-2},
                                         Case{"gpt", [] { return gpt(2, 6, 13, 8, 2, 2); }, 1e-3}),
                         [](const auto& given) { return std::string(given.param.name); });

std::int64_t parameters_of(const Network& network) {
  Parameters parameters;
  network.loss(parameters, network.batch);
  return parameters.count();
}

TEST(NetworkSizes, AreThePublishedOnes) {
  EXPECT_EQ(parameters_of(alexnet(1, 224, 32, 1000)), 62378344);
  EXPECT_EQ(parameters_of(resnet50(1, 224, 64, 1000)), 25557032);
}

}  // namespace
}  // namespace varve::networks
