#include "bench/gpu_watch.h"

#include <gtest/gtest.h>

#include "bench/frameworks.h"

namespace varve::bench {
namespace {

std::vector<GpuSample> ramp() {
  std::vector<GpuSample> samples;
  for (int i = 0; i <= 10; ++i)  // idle for five seconds, then at work
    samples.push_back({.at = 100.0 + i,
                       .utilisation = i < 5 ? 0.0 : 1.0,
                       .used_bytes = 1000 + (i < 2 ? 0 : 5000),
                       .joules = i < 5 ? 0.0 : 300.0 * (i - 5),
                       .sm_mhz = i < 5 ? 300.0 : 1980.0,
                       .memory_mhz = 3200});
  return samples;
}

TEST(GpuWatch, OnlyTheTimedPartCounts) {
  const nlohmann::ordered_json seen = between(ramp(), 105.5, 109.5, 1000);
  EXPECT_EQ(seen.at("utilisation"), 1);
  EXPECT_EQ(seen.at("sm_mhz"), 1980);
  EXPECT_NEAR(seen.at("joules").get<double>(), 1200, 1e-6);  // between the samples, too
  EXPECT_NEAR(seen.at("watts").get<double>(), 300, 1e-6);
  EXPECT_EQ(seen.at("used_bytes"), 5000);  // of the whole life, above what others held before
}

TEST(GpuWatch, NothingSeenIsNull) {
  EXPECT_TRUE(between({}, 0, 1, 0).is_null());
  EXPECT_TRUE(between(ramp(), 200, 201, 0).is_null());
  GpuWatch processor("cpu");
  processor.look();
  EXPECT_TRUE(processor.between(0, 1e18).is_null());
}

TEST(GpuWatch, EnergyThatIsNotToldIsAbsent) {
  std::vector<GpuSample> samples = ramp();
  for (GpuSample& s : samples) s.joules = 0;
  EXPECT_FALSE(between(samples, 101, 109, 0).contains("joules"));
}

TEST(GpuWatch, PyTorchHasModesOfItsOwnThere) {
  const Framework& torch = find_framework("torch");
  EXPECT_EQ(torch.modes_on("cpu"), std::vector<std::string>{"plain"});
  EXPECT_EQ(torch.modes_on("cuda").front(), "graph");
  EXPECT_EQ(find_framework("jax").modes_on("cuda"), find_framework("jax").modes_on("cpu"));
}

}  // namespace
}  // namespace varve::bench
