#include "bench/machine_facts.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace varve::bench {
namespace {

TEST(MachineFacts, ACarriedProgramIsToldItsCommit) {
  setenv("VARVE_COMMIT", "0123abc", 1);
  EXPECT_EQ(source_commit(), "0123abc");
  setenv("VARVE_COMMIT", "", 1);
  EXPECT_NE(source_commit(), "0123abc");
  unsetenv("VARVE_COMMIT");
}

}  // namespace
}  // namespace varve::bench
