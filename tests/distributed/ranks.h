// Tests of several ranks. The test's own process starts the test again as 1, 2, 3 and 4 ranks; what a rank expects and
// does not find ends it with an exit code that the first process sees.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "varve/distributed.h"
#include "varve/error.h"
#include "varve/tensor.h"

namespace varve::test {

inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// VARVE_TEST_DEVICES names one: "cuda", where there is one, if only an emulated one.
inline std::vector<std::string> devices_of_ranks() {
  const char* named = std::getenv("VARVE_TEST_DEVICES");
  return named && *named ? std::vector<std::string>{named} : std::vector<std::string>{"cpu", "reference"};
}

class Ranks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_device(devices_of_ranks().front()); }
  void TearDown() override { set_device("cpu"); }
  // True in the process that starts the ranks: it is done. False in a rank.
  static bool started(distributed::LaunchOptions options = {}) {
    if (std::getenv("VARVE_RANK")) return false;
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    options.ranks = GetParam();
    options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_brief=1",
                       std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name()};
    EXPECT_EQ(distributed::launch(options), 0) << options.ranks << " ranks";
    return true;
  }
};

}  // namespace varve::test
