// What counts as a change, and whose changes count as regressions.
#include "bench/compare.h"

#include <gtest/gtest.h>

namespace varve::bench {
namespace {

Record timed(const std::string& framework, const Groups& processes) {
  Record r;
  r.kind = "step", r.workload = "fcn5", r.framework = framework;
  r.batch = 64, r.threads = 2, r.peak_bytes = 1000;
  r.machine = {{"cpu", "a processor"}};
  r.processes = processes;
  r.modes.assign(processes.size(), "plain");
  summarize(r);
  return r;
}

Groups around(double ms) { return {{ms, ms * 1.01, ms * 0.99}, {ms * 1.005, ms, ms * 0.995}}; }

TEST(Compare, NoiseIsNoChange) {
  EXPECT_TRUE(compare({timed("varve", around(10))}, {timed("varve", around(10.3))}).changes.empty());
  // Twice as slow in the median, but one process of the two was as fast as before.
  EXPECT_TRUE(compare({timed("varve", around(10))}, {timed("varve", {{10, 10, 10}, {20, 20, 20}})}).changes.empty());
}

TEST(Compare, SlowerIsARegressionOfVarveAlone) {
  const Changes varve = compare({timed("varve", around(10))}, {timed("varve", around(12))});
  ASSERT_EQ(varve.changes.size(), 1u);
  EXPECT_EQ(varve.changes[0].what, "time");
  EXPECT_TRUE(varve.regressed());
  const Changes torch = compare({timed("torch", around(10))}, {timed("torch", around(12))});
  ASSERT_EQ(torch.changes.size(), 1u);
  EXPECT_FALSE(torch.regressed());
  const Changes faster = compare({timed("varve", around(12))}, {timed("varve", around(10))});
  ASSERT_EQ(faster.changes.size(), 1u);
  EXPECT_FALSE(faster.regressed());
}

TEST(Compare, MemoryAccuracyAndStatusCount) {
  Record before = timed("varve", around(10)), after = before;
  after.peak_bytes = 1200;
  EXPECT_EQ(compare({before}, {after}).changes.at(0).what, "memory");
  EXPECT_TRUE(compare({before}, {after}).regressed());
  after = before, after.status = "failed";
  EXPECT_EQ(compare({before}, {after}).changes.at(0).what, "status");
  EXPECT_TRUE(compare({before}, {after}).regressed());
  EXPECT_FALSE(compare({after}, {before}).regressed());
  before.kind = "train", before.details["runs"] = {{{"test_accuracy", 0.981}}, {{"test_accuracy", 0.983}}};
  after = before, after.details["runs"] = {{{"test_accuracy", 0.978}}, {{"test_accuracy", 0.976}}};
  EXPECT_EQ(compare({before}, {after}).changes.at(0).what, "accuracy");
  EXPECT_TRUE(compare({before}, {after}).regressed());
}

TEST(Compare, OtherSettingsAndMachinesStandApart) {
  Record before = timed("varve", around(10)), after = timed("varve", around(20));
  after.batch = 32;
  Changes c = compare({before}, {after});
  EXPECT_EQ(c.compared, 0u);
  EXPECT_EQ(c.only_before.size(), 1u);
  EXPECT_EQ(c.only_after.size(), 1u);
  after = timed("varve", around(20)), after.machine["cpu"] = "another";
  EXPECT_EQ(compare({before}, {after}).compared, 0u);
}

TEST(Compare, TheLastOfEqualRecordsCounts) {
  EXPECT_TRUE(
      compare({timed("varve", around(10))}, {timed("varve", around(20)), timed("varve", around(10))}).changes.empty());
}

}  // namespace
}  // namespace varve::bench
