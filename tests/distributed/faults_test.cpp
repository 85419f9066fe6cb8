// A rank that dies, stops, is late or is not one of ours: the others say which, end soon, and a restarted job goes on
// exactly.
#include "distributed/faults.h"

namespace varve::test {
namespace {

TEST_P(Faults, AKilledRankIsNamedAndARestartedJobGoesOnExactly) {
  if (is_rank()) return train_and_tell();
  const TemporaryFolder whole, harmed, again;
  ASSERT_EQ(launch_harmed(whole, "none").code, 0);
  const Ended ended = launch_harmed(harmed, "kill@14");
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 30);
  expect_named(harmed, GetParam(), GetParam() - 1, "has died");
  EXPECT_EQ(launch_harmed(again, "kill@14", {.restarts = 1}).code, 0);
  for (int r = 0; r < GetParam(); ++r) {
    EXPECT_GT(read_text(whole / "rank0").size(), 1000u);
    EXPECT_TRUE(read_text(again / ("rank" + std::to_string(r))) == read_text(whole / "rank0"));
  }
}

TEST_P(Faults, ARankThatEndsEarlyIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("leave@5", "has ended in order");
}

INSTANTIATE_TEST_SUITE_P(Of, Faults, ::testing::Values(2, 4));

// What more ranks would show again.
class FaultsOfTwo : public Faults {};

TEST_P(FaultsOfTwo, AStoppedRankIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("stop@5", "has been silent");
}

TEST_P(FaultsOfTwo, ARankThatFailsTellsTheOthersWhy) {
  if (is_rank()) return train_and_tell();
  expect_said("throw@5", "the disk of this rank is gone");
}

TEST_P(FaultsOfTwo, ARankThatIsOutOfMemorySaysSo) {
  if (is_rank()) return train_and_tell();
  expect_said("memory@5", "out of memory");
}

TEST_P(FaultsOfTwo, AFullDiskIsSaidAndTheLastCheckpointStays) {
  if (is_rank()) return train_and_tell();
  const TemporaryFolder whole, harmed;
  ASSERT_EQ(launch_harmed(whole, "none").code, 0);
  EXPECT_NE(launch_harmed(harmed, "disk@5").code, 0);
  expect_named(harmed, GetParam(), 0, "last.safetensors");
  setenv("VARVE_RESTART", "1", 1);
  EXPECT_EQ(launch_harmed(harmed, "none").code, 0);
  unsetenv("VARVE_RESTART");
  EXPECT_TRUE(read_text(harmed / "rank1") == read_text(whole / "rank1"));
}

TEST_P(FaultsOfTwo, ALateRankIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("late@5", "is alive, but does not come");
}

TEST_P(FaultsOfTwo, ARankThatNeverJoinsIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("absent", "before it joined");
}

TEST_P(FaultsOfTwo, ARankWithAnotherBatchIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("batch", "batch: 16");
}

TEST_P(FaultsOfTwo, ARankWithOtherDataIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("data", "training data: 200 samples");
}

TEST_P(FaultsOfTwo, ARankWithOtherSamplesIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("samples", "training samples:");
}

TEST_P(FaultsOfTwo, ARankWithAnotherNetworkIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("network", "network: ");
}

INSTANTIATE_TEST_SUITE_P(Of, FaultsOfTwo, ::testing::Values(2));

}  // namespace
}  // namespace varve::test
