// Ranks on several hosts, which are network namespaces on a bridge (tools/rank-hosts): started by an agent in place of
// ssh, cut off, and behind a slow wire. Needs root and iproute2.
#include <sys/wait.h>

#include "distributed/faults.h"

namespace varve::test {
namespace {

class HostsOfRanks : public Faults {
 protected:
  // True in the process that is to be the launcher, inside. Elsewhere the test is done, or this is a rank.
  static bool is_launcher(const std::string& wire = "") {
    if (is_rank()) {
      train_and_tell();
      return false;
    }
    if (std::getenv("RANK_HOSTS_INSIDE")) return true;
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string inside = std::string(VARVE_TESTS_DIR) + "/../tools/rank-hosts a,b " + wire + " '" +
                               std::filesystem::read_symlink("/proc/self/exe").string() +
                               "' --gtest_brief=1 --gtest_filter=" + test->test_suite_name() + "." + test->name();
    const int status = std::system(inside.c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
      skip();
    else
      EXPECT_EQ(status, 0);
    return false;
  }
  static void skip() { GTEST_SKIP() << "network namespaces need root and iproute2"; }
  static Ended launch_on_hosts(const TemporaryFolder& folder, const std::string& harm, int restarts = 0) {
    setenv("VARVE_THREADS", "1", 1);
    return launch_harmed(folder, harm,
                         {.ranks = GetParam() / 2,
                          .hosts = {"a", "b"},
                          .restarts = restarts,
                          .elastic = restarts > 0,
                          .address = "10.77.0.1"});
  }
};

TEST_P(HostsOfRanks, TrainToTheSameBitsAsOneBehindASlowWire) {
  if (!is_launcher("20mbit")) return;
  const TemporaryFolder hosts, one;
  EXPECT_EQ(launch_on_hosts(hosts, "none").code, 0);
  EXPECT_EQ(launch_harmed(one, "none").code, 0);
  for (int r = 0; r < GetParam(); ++r) {
    const std::string name = "rank" + std::to_string(r);
    EXPECT_GT(read_text(hosts / name).size(), 1000u);
    EXPECT_TRUE(read_text(hosts / name) == read_text(one / name));
  }
}

TEST_P(HostsOfRanks, AHostWhoseCableIsCutIsNamedAndLeftOut) {
  if (!is_launcher()) return;
  const TemporaryFolder folder;
  std::thread cutter([&] {
    while (!std::filesystem::exists(folder / "now")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(std::system("ip link set cable-b down"), 0);
  });
  const Ended ended = launch_on_hosts(folder, "cut@5", 1);
  cutter.join();
  EXPECT_EQ(ended.code, 0);  // host a has gone on by itself
  EXPECT_LT(ended.seconds, 30);
  const int first_of_b = GetParam() / 2;
  for (int r = 0; r < GetParam(); ++r) {
    const std::string said = read_text(folder / ("rank" + std::to_string(r)));
    if (r < first_of_b)
      EXPECT_GT(said.size(), 1000u) << said;
    else
      EXPECT_NE(said.find("cut off"), std::string::npos) << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, HostsOfRanks, ::testing::Values(4));

}  // namespace
}  // namespace varve::test
