// What `explain` says about rows and accounts whose gaps are known.
#include "bench/explain.h"

#include <gtest/gtest.h>

namespace varve::bench {
namespace {

const std::string kAccount =
    "onednn matmul  <-  matmul(f32 [2, 3], f32 [3, 4]) -> f32 [2, 4]\n"
    "    onednn matmul+sgd: the weight is read later\n"
    "cpu group  <-  group of 3 over [2, 4]\n"
    "onednn matmul  <-  matmul(f32 [5, 3], f32 [3, 4]) -> f32 [5, 4]\n"
    "    onednn matmul+sgd: the weight is read later\n"
    "    onednn matmul+relu: not f32\n";

TEST(Explain, RefusalsStandOnce) {
  EXPECT_EQ(refusals_of(kAccount, "onednn matmul", "matmul"),
            (std::vector<std::string>{"onednn matmul+sgd: the weight is read later", "onednn matmul+relu: not f32"}));
  EXPECT_TRUE(refusals_of(kAccount, "cpu group", "add+relu").empty());
  EXPECT_TRUE(refusals_of("", "onednn matmul", "matmul").empty());
}

TEST(Explain, TheLargestGapsComeFirst) {
  Explanation e{.gflops = 200, .gbps = 50, .step_ms = 100};
  for (int i = 1; i <= 7; ++i)
    e.rows.push_back({.kernel = "k" + std::to_string(i),
                      .op = "op",
                      .shape = "[2]",
                      .origins = {"layer"},
                      .calls = 1,
                      .ms = 10.0 * i,
                      .flops_floor_ms = 1,
                      .bytes_floor_ms = 5});
  e.rows[6].flops_floor_ms = 69;  // the longest is at its floor
  e.rows[0].ms = 4;               // below it: no gap
  e.rows[5].refused = {"winograd: stride 2"};
  const std::vector<std::string> words = largest_gaps(e);
  ASSERT_EQ(words.size(), 5u);
  EXPECT_NE(words[0].find("Run by k6, because winograd: stride 2."), std::string::npos) << words[0];
  EXPECT_NE(words[0].find("55.00 ms above its floor of 5.00 ms (bytes at 50 GB/s)"), std::string::npos) << words[0];
  EXPECT_NE(words[4].find("k2"), std::string::npos) << words[4];
}

TEST(Explain, AStepAddsUp) {
  const Workload& w = find_workload("fcn-scaling-2x32");
  const Explanation e = explain({.workload = &w, .batch = 8, .threads = 1}, {.repeats = 2});
  double sum = 0;
  for (const ExplainedRow& row : e.rows) sum += row.ms;
  EXPECT_NEAR(sum, e.step_ms, 1e-6 * e.step_ms);
  EXPECT_GT(e.gflops, 0);
  EXPECT_GT(e.floor_ms, 0);
  EXPECT_FALSE(e.gaps.empty());
}

}  // namespace
}  // namespace varve::bench
