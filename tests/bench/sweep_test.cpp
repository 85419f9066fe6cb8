// Lists of settings, multiplied out.
#include "bench/sweep.h"

#include <gtest/gtest.h>

#include "varve/error.h"

namespace varve::bench {
namespace {

TEST(Sweep, ListsMultiply) {
  const Sweep sweep = make_sweep({.workloads = {"fcn5", "fnn-mnist"},
                                  .batch = "16,32",
                                  .threads = "1,2",
                                  .precision = "f32,bf16",
                                  .frameworks = "torch,varve"},
                                 {"varve"});
  EXPECT_EQ(sweep.settings.size(), 16u);
  EXPECT_EQ(sweep.frameworks, (std::vector<std::string>{"varve", "torch"}));
  EXPECT_EQ(sweep.settings.front().str(), "fcn5 · batch 16 · 1 thread · f32");
  EXPECT_EQ(sweep.settings.back().str(), "fnn-mnist · batch 32 · 2 threads · bf16");
}

TEST(Sweep, WithoutSettingsTheWorkloadsDecide) {
  const Sweep sweep = make_sweep({.workloads = {"lstm-imdb"}}, {"varve", "jax"});
  ASSERT_EQ(sweep.settings.size(), 1u);
  EXPECT_EQ(sweep.settings[0].batch, 500);
  EXPECT_GE(sweep.settings[0].threads, 1);
  EXPECT_EQ(make_sweep({}, {"varve"}).settings.size(), workloads().size());
}

TEST(Sweep, RefusesWhatIsNoNumber) {
  for (const char* list : {"0", "-1", "3x", "1,,x", "99999999999999999999", "1.5", ",", "two"})
    EXPECT_THROW(whole_numbers(list, "batch", 1024), Error) << list;
  EXPECT_EQ(whole_numbers("1,,2,", "batch", 1024), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(whole_numbers("", "batch", 1024).empty());
}

void expect_refused(const SweepText& text, const std::string& part) {
  try {
    make_sweep(text, {"varve"});
    ADD_FAILURE() << "accepted: " << part;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(Sweep, ErrorsNameTheNearest) {
  expect_refused({.workloads = {"resnet5"}}, "Did you mean 'resnet50'?");
  expect_refused({.workloads = {"fcn-scaling-0x4"}}, "unknown workload");
  expect_refused({.frameworks = "varve,torhc"}, "Did you mean 'torch'?");
  expect_refused({.precision = "f16"}, "precision: expected some of");
  expect_refused({.device = "tpu"}, "device: expected some of");
  expect_refused({.threads = "0"}, "threads: expected whole numbers");
}

}  // namespace
}  // namespace varve::bench
