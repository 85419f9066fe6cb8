// Kernel texts compile for every kind of GPU, without one.
#include <gtest/gtest.h>

#include "backends/cuda/function.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

TEST(KernelTexts, ThePreludeCompiles) {
  for (const char* arch : {"sm_80", "sm_90a"}) EXPECT_FALSE(compile(prelude(), arch).empty()) << arch;
}

TEST(KernelTexts, AnErrorShowsTheLog) {
  try {
    compile("extern \"C\" __global__ void k() { undeclared = 1; }", "sm_90");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("undeclared"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace varve::cuda
